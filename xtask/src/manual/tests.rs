use super::*;
use larder_testkit::{Requirement, skip};
use std::process::Command;

const SECTIONS: [&str; 7] = [
    "NAME",
    "SYNOPSIS",
    "DESCRIPTION",
    "EXIT STATUS",
    "ENVIRONMENT",
    "FILES",
    "SEE ALSO",
];

/// Returns the headings of a page.
fn headings(page: &Page) -> Vec<&str> {
    let lines = page.text.lines();
    let headings = lines.filter_map(|line| line.strip_prefix(".SH "));
    headings.map(|heading| heading.trim_matches('"')).collect()
}

/// Returns the text of a section.
fn section<'a>(page: &'a Page, heading: &str) -> &'a str {
    for quote in ["", "\""] {
        let start = format!("\n.SH {quote}{heading}{quote}\n");
        if let Some((_, rest)) = page.text.split_once(&start) {
            return rest.split("\n.SH ").next().unwrap();
        }
    }
    panic!("{} has no section {heading}", page.name);
}

#[test]
fn every_page_has_all_sections_in_order() {
    let pages = pages().unwrap();
    assert!(pages.len() > 40);
    for page in &pages {
        let headings = headings(page);
        let required: Vec<_> = headings
            .iter()
            .filter(|heading| SECTIONS.contains(heading))
            .collect();
        assert_eq!(
            required,
            SECTIONS.iter().collect::<Vec<_>>(),
            "{}",
            page.name
        );
        for heading in SECTIONS {
            assert!(
                !section(page, heading).trim().is_empty(),
                "{}: {heading}",
                page.name
            );
        }
        let unique: std::collections::HashSet<_> = headings.iter().collect();
        assert_eq!(unique.len(), headings.len(), "{}: {headings:?}", page.name);
    }
}

#[test]
fn every_program_and_subcommand_has_a_page() {
    let pages = pages().unwrap();
    let names: Vec<String> = pages
        .iter()
        .map(|page| format!("{}.{}", page.name, page.section))
        .collect();
    for name in [
        "larder.1",
        "larder-ls.1",
        "larder-overlay-diff.1",
        "larder-lab.1",
        "larder-lab-trace-info.1",
        "larder-remote.1",
        "mount.larder.8",
    ] {
        assert!(names.contains(&name.to_owned()), "{name}");
    }
}

#[test]
fn related_pages_exist() {
    let pages = pages().unwrap();
    let names: Vec<String> = pages
        .iter()
        .map(|page| format!("{}({})", page.name, page.section))
        .collect();
    for page in &pages {
        for related in sections::see_also(&page.name) {
            let is_own = related.starts_with("larder") || related.starts_with("mount.larder");
            assert!(
                !is_own || names.contains(&related),
                "{}: {related}",
                page.name
            );
        }
    }
}

#[test]
fn page_of_the_mount_helper_has_lines_for_fstab() {
    let pages = pages().unwrap();
    let page = pages
        .iter()
        .find(|page| page.name == "mount.larder")
        .unwrap();
    let examples = section(page, "EXAMPLES");
    assert!(
        examples.contains("/srv/disk.img  /mnt/disk  larder"),
        "{examples}"
    );
    assert!(section(page, "EXIT STATUS").contains("32"));
}

#[test]
fn pages_have_the_files_and_variables_that_no_argument_names() {
    let pages = pages().unwrap();
    for (name, heading, term) in [
        ("larder-create", "FILES", "/etc/passwd, /etc/group"),
        ("larder-shrink", "FILES", "shrink"),
        ("larder-lab-advise", "FILES", "verify"),
        ("larder-lab-reproduce", "ENVIRONMENT", "TMPDIR"),
    ] {
        let page = pages.iter().find(|page| page.name == name).unwrap();
        let text = section(page, heading);
        assert!(text.contains(term), "{name}: {text}");
    }
}

#[test]
fn pages_render_without_warnings() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path()).unwrap();
    let mut files = Vec::new();
    for folder in ["man1", "man8"] {
        for entry in fs::read_dir(dir.path().join(folder)).unwrap() {
            files.push(entry.unwrap().path());
        }
    }
    for (tool, arguments) in [
        ("groff", &["-man", "-ww", "-z", "-Tutf8"] as &[&str]),
        ("mandoc", &["-T", "lint", "-W", "warning"]),
    ] {
        if skip(&[Requirement::Tool(tool)]) {
            continue;
        }
        let output = Command::new(tool)
            .args(arguments)
            .args(&files)
            .output()
            .unwrap();
        let printed = [output.stdout, output.stderr].concat();
        assert_eq!(String::from_utf8_lossy(&printed), "", "{tool}");
    }
}

#[test]
fn help_is_divided_into_sections() {
    let help = Help::parse(
        "Keys:\n  q  quit\n\nJSON: a\n\nmore\n\nExit codes:\n  0  fine\n\nExamples:\n  larder x\n\nlast",
    );
    let others = [
        ("KEYS", "  q  quit".to_owned()),
        ("JSON", "JSON: a\n\nmore".to_owned()),
        ("NOTES", "last".to_owned()),
    ];
    assert_eq!(help.others, others);
    assert_eq!(help.exit_codes, "  0  fine");
    assert_eq!(help.examples, "  larder x\n");
}

#[test]
fn text_keeps_rows_and_fills_paragraphs() {
    let mut roff = Roff::new();
    add_text(&mut roff, "Options:\n  ro     read only\n\nThe rest.");
    let page = roff.render();
    assert!(
        page.contains("\nOptions:\n.nf\n  ro     read only\n.fi\n.PP\nThe rest.\n"),
        "{page}"
    );
}

/// Adds each option of `command` and its subcommands that is described by more than ten words.
fn add_wordy(command: &clap::Command, wordy: &mut Vec<String>) {
    for argument in command.get_arguments() {
        let help = argument.get_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        // The default follows the phrase.
        let phrase = help.split(" [default").next().unwrap_or_default();
        if phrase.split_whitespace().count() > 10 {
            wordy.push(format!(
                "{} {}: {phrase}",
                command.get_name(),
                argument.get_id()
            ));
        }
    }
    for subcommand in command.get_subcommands() {
        add_wordy(subcommand, wordy);
    }
}

#[test]
fn options_are_described_by_at_most_ten_words() {
    let mut wordy = Vec::new();
    for mut command in [larder(), remote(), mount_helper()] {
        command.build();
        add_wordy(&command, &mut wordy);
    }
    assert!(wordy.is_empty(), "{}", wordy.join("\n"));
}
