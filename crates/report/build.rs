// SPDX-License-Identifier: GPL-2.0-only
//! Takes plotly.js (MIT) out of the package `plotly` for the report. Only the build needs the package:
//! the MathJax that it carries as well stays outside the program.

use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let scripts = plotly::Plot::offline_js_sources();
    let plotly = scripts
        .split("</script>")
        .filter_map(|script| Some(script.split_once('>')?.1))
        .find(|script| script.trim_start().starts_with("/**\n* plotly.js v"))
        .ok_or("the package plotly has no plotly.js where it used to be")?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("plotly.min.js"), plotly)?;
    Ok(())
}
