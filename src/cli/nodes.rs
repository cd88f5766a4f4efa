//! `tune nodes [STUDY] [--forget NAME]`: who works on a study that several nodes share.

use super::commands::NodesArgs;
use super::read_command::meant;
use super::{Common, answer, run};
use crate::query;
use config::places::Wanted;
use messages::exit::{Exit, Failure};
use store::Store;

pub(super) fn nodes(common: &Common, args: &NodesArgs) -> Result<Exit, Failure> {
    let storage = run::storage(&run::existing_project(common, Wanted::Studies)?, common)?;
    if !storage.is_shared() {
        return Err(Failure::input(format!(
            "{storage}: the studies are in a file, which one node works on; expected a server (--storage \
             postgresql://..., TUNE_STORAGE)"
        )));
    }
    let store = Store::open_read_only(&storage)?;
    let study = meant(common, &store, args.study.as_deref())?;
    let Some(node) = &args.forget else {
        return answer(common, &query::nodes(&store, &study, None)?);
    };
    drop(store);
    let mut store = Store::open_existing(&storage)?;
    let known = store.nodes(study.study_id)?;
    if store.forget_node(study.study_id, node)? == 0 {
        let names: Vec<&str> = known
            .iter()
            .filter(|n| n.is_live())
            .map(|n| &*n.name)
            .collect();
        let expected = match names.is_empty() {
            true => "no node holds anything".to_owned(),
            false => format!("expected one of {}", names.join(", ")),
        };
        return Err(Failure::input(format!(
            "--forget: found {node:?}, which holds nothing; {expected}"
        )));
    }
    let forgotten = Some(node.clone());
    answer(common, &query::nodes(&store, &study, forgotten)?)
}
