// SPDX-License-Identifier: GPL-2.0-only
//! Puts every experiment into the program, so that `steelyard reproduce` works from anywhere: a list
//! of the paths below `experiments/` with their texts.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?);
    let folders = root.join("../../experiments").canonicalize()?;
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", folders.display());
    let mut list = String::from("[\n");
    for folder in sorted(&folders)?.iter().filter(|path| path.is_dir()) {
        for file in sorted(folder)?.iter().filter(|path| path.extension() == Some("toml".as_ref()))
        {
            let name = file.strip_prefix(&folders).map_err(io::Error::other)?;
            let _ = writeln!(list, "({:?}, include_str!({:?})),", name, file);
        }
    }
    list.push(']');
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("files.rs"), list)
}

fn sorted(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
