//! Finds what a failure needs: rows, variables, options, files. Each is found by runs without it, or with it alone.

use std::collections::BTreeSet;

use crate::bisect::{Culprits, culprits, halved};
use crate::causes::Cause;
use crate::change::{Change, Rows, Setting};
use crate::failed_at;
use crate::leftovers::Leftover;
use crate::matrix::Verdict;
use crate::notes::Notes;
use crate::options::most_suspect_first;
use crate::signature::Signature;
use crate::signs::Sign;

use super::{Examiner, Halt};

/// Most options that are left out one by one.
const MOST_OPTIONS: usize = 40;

/// Most folders of earlier runs that are left out one by one, where the program cannot do without all of them.
const MOST_FOLDERS: usize = 6;

impl Examiner<'_> {
    /// Runs settings until it is known whether they end the failure; says whether they do.
    pub(super) fn ends(&mut self, settings: &BTreeSet<Setting>) -> Result<bool, Halt> {
        loop {
            if let Some(verdict) = self.matrix.settled(settings) {
                return Ok(verdict == Verdict::Cleared);
            }
            self.run_under(settings)?;
            self.matrix.weigh();
        }
    }

    /// Whether it fails with these rows alone, in as many runs as would show that it does not.
    fn fails_with(&mut self, rows: &Rows) -> Result<bool, Halt> {
        for repeat in 0..self.matrix.needed().unwrap_or(0) {
            if self.failing_notes(rows, None, repeat)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs it with these rows alone, and maybe one change; says, where it fails, what it noted until then.
    fn failing_notes(
        &mut self,
        rows: &Rows,
        change: Option<Change>,
        repeat: u32,
    ) -> Result<Option<Notes>, Halt> {
        let workers = Setting::Change(Change::Workers0);
        let own =
            self.matrix.notes.loader_workers() > 0 && !self.matrix.workarounds().contains(&workers);
        let changes = own.then_some(workers).into_iter();
        let settings = changes.chain(change.map(Setting::Change)).collect();
        let seen = self.once(&settings, Some(rows), repeat)?;
        let there =
            |f: &Signature| self.matrix.matches_place(f) && (own || self.matrix.matches_class(f));
        let it = |f: Signature| self.matrix.matches(&f) || there(&f);
        Ok(seen.failure.is_some_and(it).then_some(seen.notes))
    }

    /// The smallest part of the last batch that makes the program fail alone.
    pub(super) fn locate_rows(&mut self) -> Result<(), Halt> {
        let always_there = failed_at::always_there(&self.failed_at);
        let Some((loader, all, suspects)) = self.matrix.suspected_rows(&always_there) else {
            return Ok(());
        };
        let mut fails = |rows: &[u64]| {
            let rows = rows.to_vec();
            self.fails_with(&Rows { loader, rows })
        };
        if let Culprits::These(rows) = culprits(suspects, &all, &mut fails)? {
            // Of a program that needs two rows to run, the other one only keeps it company.
            self.matrix.evidence.row = rows.len() <= 2;
            let rows = Rows { loader, rows };
            self.rows = Some(rows.clone());
            // Several rows may be bad: then it fails at other ones with other random numbers, and yet it is not these.
            if self.matrix.evidence.signs.contains(&Sign::Wanders) {
                let notes = self.failing_notes(&rows, Some(Change::Seed), 0)?;
                let in_first = |notes: &Notes| notes.batch.as_ref().is_some_and(|b| b.taken <= 1);
                self.at_once = notes.is_some_and(|notes| in_first(&notes));
                self.see();
            }
        }
        Ok(())
    }

    /// Of changes that have ended the failure and change or leave out many things at once, what it ended by. `meanwhile`: only
    /// where the likeliest cause explains that; a failure that comes now and then may have ended by chance, and more runs tell.
    pub(super) fn locate_cleared(&mut self, meanwhile: bool) -> Result<(), Halt> {
        let first = self.matrix.evidence.ranking()[0].cause;
        let now = |change: Change| !meanwhile || first.explains(change);
        if now(Change::CleanEnvironment) {
            self.locate_variables()?;
        }
        if now(Change::NoLeftovers) {
            self.locate_leftovers()?;
        }
        // Another number of batches may only move what an option asks for, and that is found sooner than more is known of it.
        let smaller = first == Cause::BatchSize
            && self.is_to_be_located(Change::HalfBatch) == Some(Verdict::Cleared);
        match smaller || !meanwhile {
            true => self.locate_options(),
            false => Ok(()),
        }
    }

    /// Whether the runs under a change are done, and it was not looked for what in it matters; says it once.
    fn is_to_be_located(&mut self, change: Change) -> Option<Verdict> {
        let verdict = self
            .matrix
            .settled(&BTreeSet::from([Setting::Change(change)]))?;
        self.located.insert(change).then_some(verdict)
    }

    /// The variables without which it does not fail, where a clean environment ends it.
    fn locate_variables(&mut self) -> Result<(), Halt> {
        if self.is_to_be_located(Change::CleanEnvironment) != Some(Verdict::Cleared) {
            return Ok(());
        }
        let without = |names: &[String]| each(names, Setting::WithoutVariable);
        let names = self.request.host.uncommon();
        self.variables = halved(names, &mut |names| self.ends(&without(names)))?;
        self.matrix.evidence.variable = !self.variables.is_empty();
        Ok(())
    }

    /// The files of earlier runs without which it does not fail: of all, where it ends without all, else of each folder
    /// without which the program can do.
    fn locate_leftovers(&mut self) -> Result<(), Halt> {
        let without = |names: &[String]| each(names, Setting::WithoutFile);
        let left: BTreeSet<Leftover> = self.matrix.notes.leftovers.clone();
        let roots: BTreeSet<String> = left.iter().map(|l| l.root.clone()).collect();
        let mut found = match self.is_to_be_located(Change::NoLeftovers) {
            Some(Verdict::Cleared) => {
                let roots = roots.into_iter().collect();
                halved(roots, &mut |names| self.ends(&without(names)))?
            }
            Some(Verdict::Other) if roots.len() > 1 => {
                let mut found = Vec::new();
                for root in roots.into_iter().take(MOST_FOLDERS) {
                    if self.ends(&without(std::slice::from_ref(&root)))? {
                        found.push(root);
                        break;
                    }
                }
                found
            }
            Some(_) | None => return Ok(()),
        };
        if let [root] = found.as_slice() {
            let within = left.iter().filter(|l| l.root == *root);
            let files: Vec<String> = within.map(|l| l.file.clone()).collect();
            let named = files.len() > 1 || files.first().is_some_and(|file| file != root);
            if named && self.ends(&without(&files))? {
                found = halved(files, &mut |names| self.ends(&without(names)))?;
            }
        }
        self.leftovers = found;
        Ok(())
    }

    /// The options without which it does not fail, where nothing but a size of batch explains it.
    fn locate_options(&mut self) -> Result<(), Halt> {
        let said = self.matrix.root().map_or("", |f| f.message.as_str());
        let names = most_suspect_first(&self.request.words, said);
        let first = self.matrix.evidence.ranking()[0].cause;
        let explained = !self.matrix.workarounds().is_empty() && first != Cause::BatchSize;
        if !self.request.options || names.len() > MOST_OPTIONS || explained {
            return Ok(());
        }
        self.options.clear();
        for name in names {
            if self.ends(&BTreeSet::from([Setting::WithoutOption(name.clone())]))? {
                self.options.push(name);
            }
        }
        self.matrix.evidence.options = !self.options.is_empty();
        Ok(())
    }
}

fn each(names: &[String], setting: fn(String) -> Setting) -> BTreeSet<Setting> {
    names.iter().cloned().map(setting).collect()
}
