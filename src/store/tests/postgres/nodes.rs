//! Several nodes on one study.

use std::time::Duration;

use super::Postgres;
use crate::tests::*;
use crate::{
    Changes, HeldBy, KnownTrials, RepeatSummary, Replayed, StopAsked, TrialSummary, overtaken,
};
use search::study::Purpose;

/// Long enough for any test.
const LONG: Duration = Duration::from_secs(600);

/// A node at work.
struct Node {
    store: Store,
    study: i64,
    run: i64,
    seen: KnownTrials,
}

impl Node {
    fn named(bench: &BenchOn<Postgres>, name: &str) -> Node {
        let url = bench.place.word();
        let place = Place::named(&url, bench.place.file(), name).unwrap();
        let mut store = Store::open(&place).unwrap();
        store.join(bench.study).unwrap();
        let run = (store.begin_run_of_node(bench.study, &run_record(), LONG)).unwrap();
        let mut seen = KnownTrials::of_run(run);
        store.changes(bench.study, &mut seen).unwrap();
        Node {
            store,
            study: bench.study,
            run,
            seen,
        }
    }

    /// Gives what was left out.
    fn write(&mut self, writes: &[Write]) -> Vec<Write> {
        let time = self.store.time();
        let ids = (self.study, self.run);
        let carried = self.store.carry_out(ids, time, writes, &mut self.seen);
        carried.unwrap().late
    }

    fn look(&mut self) -> Changes {
        self.store.changes(self.study, &mut self.seen).unwrap()
    }
}

/// The lease of this node ends now.
fn expire(bench: &mut BenchOn<Postgres>, node: &str) {
    assert_eq!(bench.store.forget_node(bench.study, node).unwrap(), 1);
}

fn left(changes: &Changes) -> Vec<(u64, u32)> {
    let all = changes.nodes.iter().flat_map(|nodes| &nodes.left);
    all.map(|(trial, r)| {
        assert_eq!(trial.number, r.number);
        (r.number, r.next_attempt())
    })
    .collect()
}

fn elsewhere(changes: &Changes) -> Vec<Job> {
    let all = changes.nodes.iter().flat_map(|nodes| &nodes.running);
    all.copied().collect()
}

fn reclaimed(number: u64, attempt: u32) -> Write {
    Write::TrialReclaimed { number, attempt }
}

#[test]
fn what_was_taken_over_and_lost_again_is_not_taken_over_as_it_was_before() {
    let mut bench = BenchOn::<Postgres>::new();
    let [mut a, mut b, mut c] = ["a", "b", "c"].map(|name| Node::named(&bench, name));
    assert_eq!(a.write(&[created(0), started(0, 0)]), []);
    expire(&mut bench, "a");
    assert_eq!(left(&c.look()), [(0, 1)]);
    assert_eq!(b.write(&[reclaimed(0, 1), started(0, 1)]), []);
    expire(&mut bench, "b");
    let stale = [reclaimed(0, 1), started(0, 1)];
    assert_eq!(c.write(&stale), stale);
    assert_eq!(left(&c.look()), [(0, 2)]);
    assert_eq!(c.write(&[reclaimed(0, 2), started(0, 2)]), []);
}

#[test]
fn what_another_node_runs_is_its_own_until_its_lease_ends() {
    let mut bench = BenchOn::<Postgres>::new();
    let (mut a, mut b) = (Node::named(&bench, "a"), Node::named(&bench, "b"));
    assert_eq!(a.write(&[created(0), started(0, 0)]), []);
    let seen = b.look();
    assert_eq!(elsewhere(&seen), [Job::trial(0)]);
    assert_eq!(seen.trials[0].state, TrialState::Running);
    assert!(b.look().is_empty(), "it was told");
    a.write(&[reported(0, 1, 0.5)]);
    assert_eq!(b.look().trials[0].intermediate[&1], 0.5, "what it reports");

    let takes = [reclaimed(0, 1), started(0, 1)];
    assert_eq!(b.write(&takes), takes, "not while the lease goes on");
    expire(&mut bench, "a");
    assert_eq!(left(&b.look()), [(0, 1)]);
    assert_eq!(b.write(&takes), []);
    let attempts = b.store.attempts(b.study, 0).unwrap();
    assert_eq!(attempts[0].outcome.as_deref(), Some("interrupted"));
    assert_eq!((attempts[1].run_id, &attempts[1].outcome), (b.run, &None));

    let late = [
        reported(0, 2, 0.25),
        ended(0, 0, "completed", false),
        finished(0, TrialState::Complete, &[0.25]),
    ];
    assert_eq!(a.write(&late), late, "it was cut off, and comes back");
    let lost = a.look();
    assert_eq!(
        (lost.lost.as_slice(), lost.gone.as_slice()),
        (&[0][..], &[][..])
    );
    assert_eq!(elsewhere(&lost), [Job::trial(0)]);
    assert_eq!(a.write(&takes), takes, "nor is it taken twice");
    let ends = [
        ended(0, 1, "completed", false),
        finished(0, TrialState::Complete, &[0.75]),
    ];
    assert_eq!(b.write(&ends), []);
    assert_eq!(a.look().trials[0].values, [0.75]);
    assert_eq!(a.store.attempts(a.study, 0).unwrap().len(), 2);
}

#[test]
fn a_node_that_comes_back_in_time_has_lost_nothing() {
    let mut bench = BenchOn::<Postgres>::new();
    let (mut a, mut b) = (Node::named(&bench, "a"), Node::named(&bench, "b"));
    a.write(&[created(0), started(0, 0)]);
    expire(&mut bench, "a");
    assert_eq!(left(&b.look()), [(0, 1)], "nobody has taken it");
    let end = finished(0, TrialState::Complete, &[0.25]);
    assert_eq!(a.write(&[end]), []);
    a.write(&[created(1), started(1, 0)]);
    a.store.renew(a.run, LONG).unwrap();
    assert_eq!(elsewhere(&b.look()), [Job::trial(1)]);
    let nodes = b.store.nodes(b.study).unwrap();
    let told: Vec<_> = nodes
        .iter()
        .map(|n| (&*n.name, n.is_live(), &*n.trials))
        .collect();
    assert_eq!(told, [("a", true, &[1][..]), ("b", true, &[][..])]);
    assert!(nodes[0].left > 590 && nodes[0].heard < 10, "{nodes:?}");
    assert_eq!(b.store.forget_node(b.study, "a").unwrap(), 1);
    let nodes = b.store.nodes(b.study).unwrap();
    assert!(nodes[0].left <= 0 && nodes[0].heard < 10, "{nodes:?}");
    a.store.renew(a.run, LONG).unwrap();
    assert!(b.store.nodes(b.study).unwrap()[0].left > 590);
}

#[test]
fn the_runs_that_have_not_ended_are_asked_to_stop_and_a_later_request_may_only_be_more_urgent() {
    let mut bench = BenchOn::<Postgres>::new();
    let [a, b, mut c] = ["a", "b", "c"].map(|name| Node::named(&bench, name));
    expire(&mut bench, "b");
    assert_eq!(c.write(&[Write::RunEnded { exit: 0 }]), []);
    assert!(bench.store.takes_requests().unwrap());
    let asked = |node: &Node| node.store.stop_asked(node.run).unwrap();
    assert_eq!(asked(&a), None);
    for (ask, is) in [
        (StopAsked::Soon, StopAsked::Soon),
        (StopAsked::Now, StopAsked::Now),
        (StopAsked::Soon, StopAsked::Now),
    ] {
        let mut runs = bench.store.ask_nodes_to_stop(bench.study, ask).unwrap();
        runs.sort_unstable();
        assert_eq!(runs, [a.run, b.run], "also where it was asked before");
        assert_eq!(asked(&a), Some(is));
        assert_eq!(asked(&b), Some(is), "it may come back");
    }
    assert_eq!(asked(&c), None, "it has ended");
    let before = "ALTER TABLE tune_leases DROP COLUMN stop";
    bench.other().batch(before).unwrap();
    assert!(!bench.store.takes_requests().unwrap());
}

#[test]
fn a_run_is_found_by_its_id_when_its_node_has_begun_another_one() {
    let bench = BenchOn::<Postgres>::new();
    let mut first = Node::named(&bench, "a");
    assert_eq!(first.write(&[Write::RunEnded { exit: 4 }]), []);
    let run = first.run;
    let begun = (first.store).begin_run_of_node(bench.study, &run_record(), LONG);
    let last = bench.store.nodes(bench.study).unwrap();
    assert_eq!(last.len(), 1);
    assert_eq!((last[0].run_id, last[0].exit), (begun.unwrap(), None));
    assert_eq!(last[0].version, run_record().version);
    let found = bench.store.nodes_of_runs(bench.study, &[run]).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].run_id, found[0].exit), (run, Some(4)));
    let none = bench.store.nodes_of_runs(bench.study, &[]).unwrap();
    assert!(none.is_empty());
}

#[test]
fn a_node_that_starts_again_may_take_what_it_held_at_once() {
    let mut bench = BenchOn::<Postgres>::new();
    let mut a = Node::named(&bench, "a");
    a.write(&[created(0), started(0, 0)]);
    let place = a.store.place().clone();
    let twin = Store::open(&place).unwrap().join(bench.study).unwrap_err();
    assert!(twin.to_string().contains("the node \"a\""), "{twin}");
    let alone = bench.store.hold(bench.study).unwrap_err();
    assert!(alone.to_string().contains("nodes work on"), "{alone}");
    let run = a.run;
    drop(a);
    let alone = bench.store.hold(bench.study).unwrap_err();
    assert!(
        alone.to_string().contains("nodes work on"),
        "its lease goes on"
    );
    drop(bench.store);
    bench.store = Store::open(&place).unwrap();
    let mut again = Node::named(&bench, "a");
    let changes = again
        .store
        .changes(bench.study, &mut KnownTrials::of_run(again.run))
        .unwrap();
    assert_eq!(left(&changes), [(0, 1)]);
    let spooled = [finished(0, TrialState::Complete, &[0.5])];
    let time = again.store.time();
    assert_eq!(again.write(&[reclaimed(0, 1)]), []);
    let refused = again
        .store
        .replay(bench.study, run, time, &spooled)
        .unwrap();
    let Replayed::Refused(why) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("taken trial 0 over"), "{why}");
}

#[test]
fn a_repeat_is_made_by_one_node_and_told_to_all() {
    let mut bench = BenchOn::<Postgres>::new();
    let (mut a, mut b) = (Node::named(&bench, "a"), Node::named(&bench, "b"));
    a.write(&[created(0), finished(0, TrialState::Complete, &[0.5])]);
    b.look();
    let job = Job::repeat(0, 1);
    let starts = |attempt| Write::AttemptStarted {
        id: job.attempt(attempt),
        seed: 7,
        worker: 0,
        pid: 1,
        device: "cpu".into(),
        log: String::new(),
    };
    let ends = |value| Write::RepeatFinished {
        job,
        seed: 7,
        state: TrialState::Complete,
        value: Some(value),
        user_attrs: Map::new(),
    };
    assert_eq!(a.write(&[starts(0)]), []);
    assert_eq!(b.write(&[starts(0)]), [starts(0)]);
    assert_eq!(elsewhere(&b.look()), [job]);
    expire(&mut bench, "a");
    let seen = b.look();
    assert_eq!(elsewhere(&seen), [], "its lease has ended");
    assert_eq!(b.write(&[starts(0)]), [starts(0)], "it had that attempt");
    assert_eq!(b.write(&[starts(1)]), []);
    assert_eq!(a.write(&[ends(0.1)]), [ends(0.1)], "too late");
    assert_eq!(b.write(&[ends(0.2)]), []);
    let repeats = a.look().nodes.unwrap().repeats;
    assert_eq!(repeats[0].value, Some(0.2));
}

#[test]
fn only_who_holds_a_trial_writes_of_it() {
    let trial = |state, held_by| {
        Some(TrialSummary {
            state,
            held_by,
            struck: false,
        })
    };
    let repeat = |finished, held_by| Some(RepeatSummary { finished, held_by });
    let id = |purpose| Job { number: 3, purpose }.attempt(1);
    let start = |purpose| Write::AttemptStarted {
        id: id(purpose),
        seed: 1,
        worker: 0,
        pid: 1,
        device: "cpu".into(),
        log: String::new(),
    };
    for held_by in [HeldBy::Run, HeldBy::Node, HeldBy::Nobody, HeldBy::Foreign] {
        let running = trial(TrialState::Running, held_by);
        let own = held_by == HeldBy::Run;
        let end = finished(3, TrialState::Complete, &[0.5]);
        assert_eq!(overtaken(&end, running, None, 0), !own);
        assert_eq!(overtaken(&start(Purpose::Search), running, None, 0), !own);
        let takes = reclaimed(3, 0);
        assert_eq!(
            overtaken(&takes, running, None, 0),
            held_by != HeldBy::Nobody
        );
        assert!(overtaken(&takes, running, None, 1), "it had an attempt");
        let complete = trial(TrialState::Complete, HeldBy::Nobody);
        let start = start(Purpose::Repeat(1));
        let busy = held_by == HeldBy::Node || held_by == HeldBy::Foreign;
        assert_eq!(overtaken(&start, complete, repeat(false, held_by), 1), busy);
        assert!(overtaken(&start, complete, repeat(true, held_by), 1));
        assert!(overtaken(&start, complete, repeat(false, held_by), 2));
    }
}
