//! `tune ask-tell`: needs no project; what it is to search comes on standard input.

use std::io::BufReader;
use std::path::Path;

use super::{Common, run};
use ask_tell::{Input, Session, archive, serve};
use config::server_url::{has_password, of_postgresql};
use messages::exit::{Exit, Failure};
use store::Place;

pub(super) fn ask_tell(common: &Common) -> Result<Exit, Failure> {
    if common.storage.is_some() {
        return Err(Failure::input(
            "--storage: ask-tell takes its database from the field storage of the request init",
        ));
    }
    let mut session = Session::new(Box::new(|asked, place| {
        let found = Place::named(&place.storage, Path::new("tune.db"), &run::node())
            .map_err(|e| format!("storage: found {}, {e}", shown(&place.storage)))?;
        run::must_be_named(&found).map_err(|failure| failure.message)?;
        archive::open(asked, &found, &place.study)
    }));
    let input = Input::until_signal()
        .map_err(|e| Failure::internal(format!("signals cannot be handled: {e}")))?;
    let (mut input, mut output) = (BufReader::new(input), std::io::stdout().lock());
    serve(&mut input, &mut output, &mut session)
}

/// What stands in a request, unless it holds a password.
fn shown(storage: &str) -> String {
    match of_postgresql(storage).is_some_and(has_password) {
        true => "a URL with a password".to_owned(),
        false => format!("{storage:?}"),
    }
}
