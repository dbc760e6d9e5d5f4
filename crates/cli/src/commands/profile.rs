//! The command `larder profile`: packs the parts of an image that a profile lists.

use crate::args::{ProfileArgs, ProfileCommand, ProfilePackArgs};
use crate::{progress, remote};
use larder_console::{Failure, Result};
use std::process::ExitCode;

pub(super) fn run(args: &ProfileArgs) -> Result<ExitCode> {
    match &args.command {
        ProfileCommand::Pack(args) => pack(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn pack(args: &ProfilePackArgs) -> Result<()> {
    let mut remote = args.remote.clone();
    if remote.profile.is_some() || remote.profile_record.is_some() || remote.offline {
        return Err(Failure::usage(
            "--profile, --profile-record and --offline cannot be used to write a pack",
        ));
    }
    remote.profile = Some(args.listed.clone());
    let mut bar = None;
    let mut show = |done_bytes: u64, total_bytes: u64| {
        bar.get_or_insert_with(|| progress::bar(|| total_bytes))
            .set_position(done_bytes);
    };
    let packed = remote::pack_profile(&args.image, &remote, &args.output, &mut show);
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    packed.unwrap_or_else(|| {
        Err(Failure::usage(format!(
            "{} is not a URL: only an image at a URL can be packed",
            args.image.display()
        )))
    })
}
