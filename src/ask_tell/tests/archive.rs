//! Sessions with an archive.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::json;

use super::*;
use store::{Changes, Write, Written};

/// An archive that remembers, and refuses the writes that it is told to.
#[derive(Default)]
struct Memory {
    writes: Vec<Write>,
    refuse: Option<Result<Written, String>>,
    changes: Changes,
}

struct Shared(Rc<RefCell<Memory>>);

impl Archive for Shared {
    fn write(&mut self, writes: &[Write]) -> Result<Written, String> {
        let mut memory = self.0.borrow_mut();
        if let Some(refused) = memory.refuse.take() {
            return refused;
        }
        memory.writes.extend_from_slice(writes);
        Ok(Written::Done)
    }

    fn changes(&mut self) -> Result<Changes, String> {
        Ok(std::mem::take(&mut self.0.borrow_mut().changes))
    }
}

fn archived(trials: Vec<FrozenTrial>) -> (Session, Rc<RefCell<Memory>>) {
    let memory = Rc::new(RefCell::new(Memory::default()));
    let shared = Rc::clone(&memory);
    let mut session = Session::new(Box::new(move |_, place| {
        assert_eq!(
            (place.storage.as_str(), place.study.as_str()),
            ("x.db", "ask-tell")
        );
        Ok((Box::new(Shared(Rc::clone(&shared))), trials.clone()))
    }));
    let request = with(init(space()), json!({"storage": "x.db", "max_step": 4}));
    assert_eq!(call(&mut session, request)["ok"], true);
    (session, memory)
}

fn stored(number: u64, state: TrialState) -> FrozenTrial {
    let value = (state == TrialState::Complete).then_some(1.0);
    search::sampler::testing::trial(number, state, Default::default(), value)
}

#[test]
fn what_could_not_be_written_has_not_happened() {
    let (mut session, memory) = archived(vec![]);
    let refuse = || memory.borrow_mut().refuse = Some(Err("storage: full".to_owned()));
    for (request, reply) in [
        (r#"{"op":"ask"}"#, None),
        (
            r#"{"op":"report","id":0,"step":1,"value":1}"#,
            Some(r#"{"prune":false}"#),
        ),
        (
            r#"{"op":"tell","id":0,"value":1,"state":"ok"}"#,
            Some(r#"{"ok":true}"#),
        ),
    ] {
        refuse();
        assert_eq!(error(&mut session, request), "storage: full");
        let again = line(&mut session, request);
        assert!(again.starts_with(reply.unwrap_or(r#"{"id":0,"#)), "{again}");
    }
    let numbers: Vec<_> = memory.borrow().writes.iter().map(Write::number).collect();
    assert_eq!(numbers, [Some(0), Some(0), Some(0)]);
}

#[test]
fn who_proposed_a_trial_is_stored_and_not_part_of_the_answer() {
    let (mut session, memory) = archived(vec![]);
    let answer = call(&mut session, json!({"op": "ask"}));
    let fields: Vec<&String> = answer.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["id", "params"]);
    let writes = memory.borrow().writes.clone();
    let [Write::TrialCreated { system_attrs, .. }] = &writes[..] else {
        panic!("{writes:?}");
    };
    assert_eq!(system_attrs["sampler"], "spread");
}

#[test]
fn a_point_of_the_client_is_stored_and_no_sampler_has_proposed_it() {
    let (mut session, memory) = archived(vec![]);
    let params = json!({"lr": 0.01, "layers": 2, "act": "relu"});
    let added = call(&mut session, json!({"op": "add", "params": params}));
    assert_eq!(added, json!({"id": 0}));
    let writes = memory.borrow().writes.clone();
    let [
        Write::TrialCreated {
            system_attrs,
            params,
            distributions,
            ..
        },
    ] = &writes[..]
    else {
        panic!("{writes:?}");
    };
    assert!(system_attrs.is_empty());
    assert_eq!((params.len(), distributions.len()), (3, 3));
}

#[test]
fn a_study_whose_last_trial_was_struck_goes_on_after_it() {
    let mut struck = stored(4, TrialState::Complete);
    let system = &mut struck.system_attrs;
    system.insert(search::study::STRUCK.to_owned(), json!(1.0));
    let (mut session, memory) = archived(vec![stored(0, TrialState::Complete), struck]);
    assert_eq!(call(&mut session, json!({"op": "ask"}))["id"], 5);
    memory.borrow_mut().changes.trials = vec![stored(3, TrialState::Complete)];
    assert_eq!(call(&mut session, json!({"op": "ask"}))["id"], 6);
    memory.borrow_mut().changes.gone = vec![4, 5, 6];
    assert_eq!(call(&mut session, json!({"op": "ask"}))["id"], 4);
}

#[test]
fn a_study_that_is_continued_goes_on_after_its_last_trial() {
    let (mut session, memory) = archived(vec![
        stored(0, TrialState::Complete),
        stored(1, TrialState::Running),
        stored(4, TrialState::Fail),
    ]);
    assert_eq!(call(&mut session, json!({"op": "ask"}))["id"], 5);
    for (id, expected) in [(0, "has ended (COMPLETE)"), (1, "of another program")] {
        let tell = json!({"op": "tell", "id": id, "value": 1, "state": "ok"}).to_string();
        assert!(error(&mut session, &tell).contains(expected));
    }
    session.end(messages::exit::Exit::Done).unwrap();
    let writes = memory.borrow().writes.clone();
    assert!(matches!(
        writes[1],
        Write::TrialFinished {
            number: 5,
            state: TrialState::Fail,
            ..
        }
    ));
    assert!(matches!(writes[2], Write::RunEnded { exit: 0 }));
}

#[test]
fn another_program_may_take_numbers_and_end_trials() {
    let (mut session, memory) = archived(vec![]);
    call(&mut session, json!({"op": "ask"}));
    memory.borrow_mut().refuse = Some(Ok(Written::Conflict));
    // The conflict is met first, then what caused it is read.
    assert_eq!(call(&mut session, json!({"op": "ask"}))["id"], 1);
    memory.borrow_mut().changes.trials = vec![
        stored(0, TrialState::Complete),
        stored(2, TrialState::Running),
    ];
    assert_eq!(call(&mut session, json!({"op": "ask"}))["id"], 3);
    let tell = |id: u64| json!({"op": "tell", "id": id, "value": 1, "state": "ok"});
    assert!(error(&mut session, &tell(0).to_string()).contains("has ended"));
    assert!(error(&mut session, &tell(2).to_string()).contains("of another program"));
    assert_eq!(call(&mut session, tell(1)), json!({"ok": true}));
}

#[test]
fn a_trial_that_another_program_deleted_is_none_and_its_number_is_free() {
    let (mut session, memory) = archived(vec![]);
    for id in 0..2 {
        assert_eq!(call(&mut session, json!({"op": "ask"}))["id"], id);
    }
    memory.borrow_mut().changes.gone = vec![1];
    assert_eq!(call(&mut session, json!({"op": "ask"}))["id"], 1);
    memory.borrow_mut().changes.gone = vec![0];
    assert_eq!(call(&mut session, json!({"op": "ask"}))["id"], 2);
    let tell = json!({"op": "tell", "id": 0, "value": 1, "state": "ok"});
    assert!(error(&mut session, &tell.to_string()).contains("no trial has"));
}
