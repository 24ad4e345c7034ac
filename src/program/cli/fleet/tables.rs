//! `fleet tables`: a stored fleet as tables in Parquet.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::render::read;
use crate::cli::output::{fail, print, put};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_render::fleet::tables::{self, write};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct FleetTablesArguments {
    /// What `fleet merge` wrote.
    fleet: PathBuf,
    /// The folder to write to, made if it is not there: a file `.parquet` for each table, in place of the one before.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

/// Writes the tables and names their files.
pub(in crate::cli) fn tables(arguments: &FleetTablesArguments) -> Exit {
    let fleet = match read(&arguments.fleet) {
        Ok(fleet) => fleet,
        Err(why) => return fail(why, Exit::Usage, false),
    };
    let failed = |error: io::Error| {
        let folder = terminal(&arguments.out.to_string_lossy());
        fail(format!("--out {folder}: {error}"), Exit::NotDurable, false)
    };
    if let Err(error) = fs::create_dir_all(&arguments.out) {
        return failed(error);
    }
    let mut exit = Exit::Ok;
    for table in tables::tables(&fleet) {
        let path = arguments.out.join(table.name).with_extension("parquet");
        let written = put(&path, |file| write(table, file).map(drop).map_err(io::Error::other));
        match written {
            Ok(()) => exit = exit.worst(print(&format!("{}\n", terminal(&path.to_string_lossy())))),
            Err(error) => return failed(error),
        }
    }
    exit
}
