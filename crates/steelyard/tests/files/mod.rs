// SPDX-License-Identifier: GPL-2.0-only
//! A directory that stands for a host: its files, and programs that only print.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tempfile::TempDir;

pub struct Files {
    directory: TempDir,
}

impl Files {
    pub fn new() -> Files {
        Files { directory: TempDir::new().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn put(&self, file: &str, content: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// In `bin`.
    #[allow(dead_code, reason = "not every host of files has programs")]
    pub fn program(&self, name: &str, script: &str) {
        let file = format!("bin/{name}");
        self.put(&file, script);
        fs::set_permissions(self.path(&file), Permissions::from_mode(0o755)).unwrap();
    }
}
