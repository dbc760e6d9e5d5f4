//! The manual pages, from the definitions of the command lines. [`sections`] has what these do not describe.

mod sections;

#[cfg(test)]
mod tests;

use clap::Command;
use clap::builder::Resettable;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use sections::Entry;
use std::fs;
use std::io;
use std::path::Path;

/// The date of the last revision, which the pages show.
const DATE: &str = "2026-12-01";

/// A manual page.
struct Page {
    /// The name, such as `larder-mount`.
    name: String,
    /// The section of the manual: 1 for commands, 8 for programs of the administrator.
    section: u8,
    /// The source for man(1).
    text: String,
}

/// Writes all pages to `man1` and `man8` in the folder `dir`.
///
/// # Errors
/// A file cannot be written.
pub fn write(dir: &Path) -> io::Result<()> {
    for page in pages()? {
        let folder = dir.join(format!("man{}", page.section));
        fs::create_dir_all(&folder)?;
        let file = format!("{}.{}", page.name, page.section);
        fs::write(folder.join(file), page.text)?;
    }
    Ok(())
}

fn pages() -> io::Result<Vec<Page>> {
    let mut pages = Vec::new();
    let mut larder = larder().disable_help_subcommand(true);
    larder.build();
    add(&larder, &mut pages)?;
    for mut command in [remote(), mount_helper()] {
        command.build();
        add(&command, &mut pages)?;
    }
    Ok(pages)
}

/// Returns the command line of larder, with that of larder-lab as its subcommand `lab`.
fn larder() -> Command {
    larder_cli::command().mut_subcommand("lab", |_| {
        larder_lab_cli::command().name("lab").version(None)
    })
}

/// Returns the definition of the command line of mount.larder, with its description.
fn mount_helper() -> Command {
    let about = "Mount an image, with the arguments of mount(8)";
    larder_cli::mount_helper_command()
        .about(about)
        .long_about(format!("{about}\n\n{}", sections::MOUNT_HELPER))
}

/// Returns the definition of the command line of larder-remote, whose commands are those of larder.
fn remote() -> Command {
    Command::new("larder-remote")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Mount and read images at URLs")
        .long_about(
            "\
larder-remote has the commands and options of larder, and the clients for web servers, S3, Google Cloud Storage and \
Azure. If an argument of larder is a URL, larder runs larder-remote with the same arguments, so users need not call \
it. It can be installed without larder.",
        )
        .override_usage("larder-remote <COMMAND>")
}

/// Adds the pages of `command` and of its subcommands.
fn add(command: &Command, pages: &mut Vec<Page>) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let section = if name == "mount.larder" { 8 } else { 1 };
    pages.push(Page {
        name: name.to_owned(),
        section,
        text: text(command, name, section)?,
    });
    for subcommand in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        add(subcommand, pages)?;
    }
    Ok(())
}

/// Returns the source of a page. The usage is as in `--help`, which names the options' values.
fn text(command: &Command, name: &str, section: u8) -> io::Result<String> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let mut shown = command.clone().override_usage(usage);
    // The first paragraph is the text of the section NAME.
    let about = command.get_long_about().map(ToString::to_string);
    if let Some((_, rest)) = about.as_deref().and_then(|text| text.split_once("\n\n")) {
        shown = shown.long_about(rest.to_owned());
    }
    let man = Man::new(shown.after_help(Resettable::Reset))
        .title(name)
        .section(section.to_string())
        .date(DATE)
        .source(concat!("Larder ", env!("CARGO_PKG_VERSION")))
        .manual("Larder Manual");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut roff = Roff::new();
    let help = command.get_after_help().map(ToString::to_string);
    let help = Help::parse(&help.unwrap_or_default());
    for (heading, text) in help.others {
        add_text(roff.control("SH", [heading]), &text);
    }
    let exit_status = sections::exit_status(name);
    add_entries(roff.control("SH", ["EXIT STATUS"]), &exit_status);
    if !help.exit_codes.is_empty() {
        if !exit_status.is_empty() {
            roff.control("PP", []);
        }
        add_text(&mut roff, &help.exit_codes);
    }
    add_entries(
        roff.control("SH", ["ENVIRONMENT"]),
        &sections::environment(name, command),
    );
    let files = sections::files(name, command);
    roff.control("SH", ["FILES"]);
    if files.is_empty() {
        roff.text([roman(
            "The command uses the files that its arguments name, and files of the kernel in /proc and /sys.",
        )]);
    }
    add_entries(&mut roff, &files);
    let examples = [help.examples.as_str(), sections::examples(name)].concat();
    if !examples.is_empty() {
        add_text(roff.control("SH", ["EXAMPLES"]), &examples);
    }
    let others = sections::see_also(name).join(", ");
    roff.control("SH", ["SEE ALSO"]).text([roman(others)]);
    roff.to_writer(&mut page)?;
    let page = String::from_utf8(page).map_err(io::Error::other)?;
    // Between the help of an option and its values, clap_mangen writes breaks that have no effect.
    Ok(page.replace("\n.br\n\n.br\n", "\n\n"))
}

/// The text after the options in `--help`, by the sections of the manual page.
#[derive(Default)]
struct Help {
    /// Sections by their headings.
    others: Vec<(&'static str, String)>,
    exit_codes: String,
    examples: String,
}

impl Help {
    /// Divides `help` into sections. A paragraph belongs to the section that its first words name, or to that of the
    /// previous paragraph.
    fn parse(help: &str) -> Self {
        let mut parsed = Self::default();
        let mut heading = "NOTES";
        for paragraph in help.split("\n\n").filter(|text| !text.is_empty()) {
            if let Some(examples) = paragraph.strip_prefix("Examples:\n") {
                parsed.examples = format!("{examples}\n");
                heading = "NOTES";
                continue;
            }
            if paragraph.starts_with("Exit codes") {
                let rows = paragraph.strip_prefix("Exit codes:\n");
                rows.unwrap_or(paragraph).clone_into(&mut parsed.exit_codes);
                continue;
            }
            // The section ENVIRONMENT describes it.
            if paragraph.starts_with("The environment variable LARDER_LOG") {
                continue;
            }
            heading = match paragraph {
                text if text.starts_with("Mount options (-o)") => "MOUNT OPTIONS",
                text if text.starts_with("Options of -o") => "MOUNT OPTIONS",
                text if text.starts_with("Tables (-o tables=)") => "TABLES",
                text if text.starts_with("JSON") => "JSON",
                text if text.starts_with("Keys:") => "KEYS",
                _ => heading,
            };
            let paragraph = paragraph.strip_prefix("Keys:\n").unwrap_or(paragraph);
            match parsed.others.last_mut() {
                Some((last, text)) if *last == heading => {
                    text.push_str("\n\n");
                    text.push_str(paragraph);
                }
                _ => parsed.others.push((heading, paragraph.to_owned())),
            }
        }
        parsed
    }
}

/// Adds `text`. Indented lines are rows and are kept; the other lines are filled.
fn add_text(roff: &mut Roff, text: &str) {
    for line in text.lines() {
        if line.is_empty() {
            roff.control("PP", []);
        } else if line.starts_with(' ') {
            roff.control("nf", []);
            roff.text([roman(line)]);
            roff.control("fi", []);
        } else {
            roff.text([roman(line)]);
        }
    }
}

fn add_entries(roff: &mut Roff, entries: &[Entry]) {
    for (name, text) in entries {
        roff.control("TP", []);
        roff.text([bold(*name)]);
        roff.text([roman(*text)]);
    }
}
