//! sysbench's OLTP read-only test on a `MariaDB` server that reads its table through a mount.
//!
//! Only the table is on the image: the directory of sysbench's database, which is read-only. The other files of the
//! server are in a data directory beside the image, in which a symbolic link leads to the table. The server changes
//! nothing (`innodb_read_only`), so that a read-only mount is enough, and the device receives only reads of the table.
//! The server runs in the control group of the readers.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::child;
use crate::database::{DATABASE, Database};
use crate::readahead::peer::Mounted;
use crate::readahead::plan::Oltp;
use crate::readahead::tools;

/// The options of the server that creates the table. A server can start with `innodb_read_only` only after a slow
/// shutdown, which `innodb-fast-shutdown=0` selects.
const CREATING: [&str; 3] = [
    "--innodb-buffer-pool-size=1G",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-fast-shutdown=0",
];

/// The options of the measured server. The buffer pool has 8 MB, the default of 2007, so that most pages are read
/// through the mount. The caches of other storage engines are small, since the memory of the group is limited.
const READING: [&str; 9] = [
    "--innodb-read-only",
    "--innodb-buffer-pool-size=8M",
    "--innodb-buffer-pool-load-at-startup=0",
    "--innodb-flush-method=fsync",
    "--innodb-use-native-aio=0",
    "--key-buffer-size=1M",
    "--aria-pagecache-buffer-size=8M",
    "--max-connections=100",
    "--event-scheduler=disabled",
];

/// The result of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transactions {
    /// Number of transactions.
    pub count: u64,
    /// The elapsed time.
    pub seconds: f64,
}

fn data_folder(folder: &Path) -> PathBuf {
    folder.join("database")
}

/// Creates the table in a new data directory below `folder`. Returns the directory of the table, which must be moved to
/// the image.
pub fn create(folder: &Path, oltp: &Oltp) -> Result<PathBuf> {
    let data = data_folder(folder);
    let server = Database::create(&data, folder, &CREATING)?;
    server.sysbench("oltp_read_only", &table(oltp, ["prepare".to_owned()]))?;
    server.stop()?;
    Ok(data.join(DATABASE))
}

/// Runs the test with `threads` connections, on the data directory that [`create`] has made below `folder`.
pub fn run(mounted: &Mounted, threads: u32, oltp: &Oltp, folder: &Path) -> Result<Transactions> {
    let data = data_folder(folder);
    let link = data.join(DATABASE);
    if link.is_symlink() {
        fs::remove_file(&link)?;
    }
    symlink(mounted.root().join(DATABASE), &link)?;
    let command = mounted.command(&child::find("mariadbd")?);
    let server = Database::start(command, &data, folder, &READING)?;
    let arguments = [
        "--rand-type=special".to_owned(),
        "--rand-seed=2007".to_owned(),
        "--db-ps-mode=disable".to_owned(),
        "--time=0".to_owned(),
        format!("--threads={threads}"),
        format!("--events={}", oltp.transactions),
        "run".to_owned(),
    ];
    let text = server.sysbench("oltp_read_only", &table(oltp, arguments))?;
    server.stop()?;
    let (count, seconds) = tools::events(&text)?;
    let wanted = oltp.transactions;
    ensure!(
        count == wanted,
        "sysbench ran {count} of {wanted} transactions"
    );
    Ok(Transactions { count, seconds })
}

/// Returns the arguments of sysbench that describe the table, and `others`.
fn table(oltp: &Oltp, others: impl IntoIterator<Item = String>) -> Vec<String> {
    let table = [
        "--tables=1".to_owned(),
        format!("--table-size={}", oltp.rows),
    ];
    table.into_iter().chain(others).collect()
}
