//! Single bits of an archive that change, one after the other.

use std::fs;
use std::path::{Path, PathBuf};

use super::dice::Dice;
use crate::failure::{Failure, Result};
use crate::scenario::operated::Operated;

/// What was noticed.
#[derive(Default)]
pub(super) struct Flips {
    pub(super) tried: u64,
    /// By `archive verify`, with the file.
    pub(super) found: u64,
    /// By `archive restore`, with the file.
    pub(super) refused: u64,
}

/// Changes bits at places that are the same in every run, and lets the archive be read after each.
pub(super) fn flips(outbox: &Operated<'_>, archive: &Path, tries: u64) -> Result<Flips> {
    let files = files(archive)?;
    let mut dice = Dice::new(4_711);
    let mut flips = Flips::default();
    for tried in 0..tries as usize {
        // Each file in its turn, the few small ones as often as the large ones.
        let file = &files[tried % files.len()];
        let good = fs::read(file)?;
        let mut bad = good.clone();
        let place = dice.below(bad.len());
        bad[place] ^= 1 << dice.below(8);
        fs::write(file, bad)?;
        flips.tried += 1;
        flips.found += u64::from(names(
            outbox,
            &["archive", "verify", "--dir", "archive"],
            1,
            file,
        )?);
        flips.refused += u64::from(names(
            outbox,
            &["archive", "restore", "--dir", "archive"],
            1,
            file,
        )?);
        fs::write(file, good)?;
    }
    Ok(flips)
}

/// Whether a command ends with this code and names the file.
fn names(outbox: &Operated<'_>, arguments: &[&str], code: i32, file: &Path) -> Result<bool> {
    let output = outbox.output(arguments)?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // As the command sees it: from its own directory.
    let file = file.strip_prefix(outbox.directory())?;
    Ok(output.status.code() == Some(code) && said.contains(&*file.to_string_lossy()))
}

/// All files of an archive, in an order that is always the same.
pub(super) fn files(archive: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in fs::read_dir(archive)? {
        let folder = folder?.path();
        if folder.is_dir() {
            for file in fs::read_dir(folder)? {
                files.push(file?.path());
            }
        }
    }
    files.sort();
    match files.is_empty() {
        false => Ok(files),
        true => Err(Failure::new("the archive is empty")),
    }
}
