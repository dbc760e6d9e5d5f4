//! sysbench's OLTP load on a `MariaDB` server whose data is stored on the mount.

use std::path::Path;

use anyhow::{Context, Result};

use crate::database::Database;
use crate::plan::Plan;

/// Returns the transactions per second of a database below `root`. The socket and the logs are created in
/// `folder`.
pub(super) fn transactions(root: &Path, plan: &Plan, folder: &Path) -> Result<f64> {
    let options = ["--innodb-buffer-pool-size=64M"];
    let server = Database::create(&root.join("database"), folder, &options)?;
    server.sysbench("oltp_read_write", &arguments(plan, "prepare"))?;
    rate(&server.sysbench("oltp_read_write", &arguments(plan, "run"))?)
}

fn arguments(plan: &Plan, step: &str) -> Vec<String> {
    vec![
        "--tables=4".to_owned(),
        "--threads=4".to_owned(),
        "--rand-seed=1".to_owned(),
        format!("--table-size={}", plan.table_rows),
        format!("--time={}", plan.database_seconds),
        step.to_owned(),
    ]
}

/// Returns the rate in a line such as `transactions:   1234   (123.40 per sec.)`.
fn rate(text: &str) -> Result<f64> {
    text.lines()
        .find_map(|line| {
            let rest = line.trim().strip_prefix("transactions:")?;
            let (_, rate) = rest.split_once('(')?;
            rate.split(' ').next()?.parse().ok()
        })
        .with_context(|| format!("unexpected output of sysbench: {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_of_transactions_is_parsed() {
        let text = "    transactions:                        1234   (123.40 per sec.)\n";
        assert!((rate(text).unwrap() - 123.4).abs() < 1e-9);
        assert!(rate("FATAL: no server").is_err());
    }
}
