//! Where studies are kept: in a file, or on a server, with the files of the project beside either.

use std::fmt;
use std::path::{Path, PathBuf};

use files::name::part;
use files::paths::directory_of;
use files::plain;

#[cfg(feature = "postgres")]
use super::sql::address::Address;

/// A database, and the project that logs, checkpoints and spools of its studies belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The database of the project; where studies are on a server, this file stands for the project.
    file: PathBuf,
    #[cfg(feature = "postgres")]
    server: Option<Shared>,
}

/// Studies that several nodes share.
#[cfg(feature = "postgres")]
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shared {
    address: Address,
    /// What this node is called.
    node: String,
}

impl Place {
    /// The file of a project's own database. With a server it is not made, but names the project's directory for all else.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The directory of the files of this database's studies: logs, checkpoints, weights. Nodes may share it. A server's is
    /// not that of the project's own database: both may have a study of the same name, of which each has a trial 0.
    pub fn files(&self) -> PathBuf {
        let dir = directory_of(&self.file);
        #[cfg(feature = "postgres")]
        if let Some(server) = &self.server {
            return dir.join("servers").join(server.address.key());
        }
        dir
    }

    /// The file that this node locks where it works on a study: the database, or for a server one of the node's own.
    pub fn held(&self) -> PathBuf {
        match self.node() {
            None => self.file.clone(),
            Some(node) => self.files().join("nodes").join(&*part(node)),
        }
    }

    /// The directory of what only this node writes: locks, and spools.
    pub fn own_files(&self) -> PathBuf {
        directory_of(&self.held())
    }

    /// The names of the nodes that have files of their own in this directory, in order; none where nodes share nothing.
    pub fn nodes_here(&self) -> Vec<String> {
        if !self.is_shared() {
            return Vec::new();
        }
        let entries = std::fs::read_dir(self.files().join("nodes")).into_iter();
        let names = entries.flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names
            .filter_map(|name| name.strip_suffix(".d").map(str::to_owned))
            .collect();
        names.sort();
        names
    }

    /// The same place as the node of this name has it.
    #[cfg_attr(not(feature = "postgres"), allow(unused_variables, unused_mut))]
    pub fn of_node(&self, node: &str) -> Place {
        let mut place = self.clone();
        #[cfg(feature = "postgres")]
        if let Some(server) = &mut place.server {
            node.clone_into(&mut server.node);
        }
        place
    }

    /// What this node is called, where others may work on the same studies.
    pub fn node(&self) -> Option<&str> {
        #[cfg(feature = "postgres")]
        return self.server.as_ref().map(|server| server.node.as_str());
        #[cfg(not(feature = "postgres"))]
        None
    }

    /// The same place as a word of a command line: [`Place::named`] reads it.
    pub fn word(&self) -> String {
        #[cfg(feature = "postgres")]
        if let Some(server) = &self.server {
            return server.address.url().to_owned();
        }
        self.file.display().to_string()
    }

    /// Whether the studies are on a server, which several nodes may share.
    pub fn is_shared(&self) -> bool {
        self.node().is_some()
    }

    /// Reads what a person calls a place: a path, `sqlite:///PATH`, or the URL of a server; `project` is the database of
    /// the project, `node` what this node is called among those that share a server.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    #[cfg_attr(not(feature = "postgres"), allow(unused_variables))]
    pub fn named(text: &str, project: &Path, node: &str) -> Result<Place, String> {
        #[cfg(feature = "postgres")]
        if let Some(address) = Address::of(text) {
            return Ok(Place {
                file: plain::real(project),
                server: Some(Shared {
                    address: address?,
                    node: node.to_owned(),
                }),
            });
        }
        let path = match text.split_once("://") {
            None => text,
            Some(("sqlite", rest)) => rest.strip_prefix('/').unwrap_or_default(),
            Some((scheme, _)) => {
                let known = match cfg!(feature = "postgres") {
                    true => "sqlite:///PATH or postgresql://USER@HOST/DATABASE",
                    false => "sqlite:///PATH (this program was built without PostgreSQL)",
                };
                return Err(format!("{scheme} is not supported; expected {known}"));
            }
        };
        if path.is_empty() {
            return Err("expected a path or sqlite:///PATH".to_owned());
        }
        // What SQLite means by these ends with the process, or is no path of a file's.
        if path == ":memory:" || path.starts_with("file:") {
            return Err("a study has to outlive its run; expected the path of a file".to_owned());
        }
        Ok(Place::from(plain::real(Path::new(path))))
    }

    #[cfg(feature = "postgres")]
    pub(super) fn server(&self) -> Option<&Address> {
        self.server.as_ref().map(|server| &server.address)
    }

    /// What messages call it.
    pub(super) fn shown(&self) -> PathBuf {
        PathBuf::from(self.to_string())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(feature = "postgres")]
        if let Some(server) = &self.server {
            return server.address.fmt(f);
        }
        self.file.display().fmt(f)
    }
}

impl From<PathBuf> for Place {
    fn from(file: PathBuf) -> Place {
        Place {
            file,
            #[cfg(feature = "postgres")]
            server: None,
        }
    }
}

impl From<&PathBuf> for Place {
    fn from(file: &PathBuf) -> Place {
        Place::from(file.clone())
    }
}

impl From<&Path> for Place {
    fn from(file: &Path) -> Place {
        Place::from(file.to_owned())
    }
}

impl From<&str> for Place {
    fn from(file: &str) -> Place {
        Place::from(PathBuf::from(file))
    }
}

impl From<&Place> for Place {
    fn from(place: &Place) -> Place {
        place.clone()
    }
}
