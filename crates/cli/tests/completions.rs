//! Tries the completion scripts in bash, zsh and fish: each shell runs on a terminal, and gets a line with tabs. A
//! function records the arguments with which the shell then calls the program.

mod support;

use larder_testkit::{Requirement, skip};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{Fixture, can_make_images, larder_ok, name_of, text};

/// The folder with the scripts.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/completions");
/// The programs whose command lines are completed.
const PROGRAMS: [&str; 3] = ["larder", "larder-lab", "larder-remote"];
/// The prompt of each shell.
const PROMPT: &str = "READY> ";

/// Names that could run a command, or that a shell could change. The beginning of each name is unique.
const HOSTILE: [&[u8]; 14] = [
    b"0 with space",
    b"1$(touch pwned)",
    b"2`touch pwned`",
    b"3;touch pwned",
    b"4'touch pwned'",
    b"5\"touch pwned\"",
    b"6\ntouch pwned\n",
    b"7\\back\\",
    b"8*[a-z]{a,b}?",
    b"9!!",
    b"a\x1b[31m",
    b"b\xff",
    b"c|touch pwned",
    b"d&touch pwned&",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }

    /// Writes the start-up files of the shell to the folder `home`, and returns the command that runs the shell.
    fn set_up(self, home: &Path) -> &'static str {
        let functions = PROGRAMS.map(|program| {
            format!(
                "{program}() {{ if [ \"$1\" = complete ]; then command {program} \"$@\"; \
                 else printf '%s\\0' \"$@\" > args; fi; }}\n"
            )
        });
        let functions = functions.concat();
        let (file, lines, command) = match self {
            Self::Bash => (
                "bashrc",
                format!("set +o history\nPS1='{PROMPT}'\n{functions}. {SCRIPTS}/larder.bash\n"),
                "bash --noprofile --rcfile home/bashrc -i",
            ),
            Self::Zsh => (
                ".zshrc",
                format!(
                    "fpath=({SCRIPTS} $fpath)\nautoload -Uz compinit\ncompinit -D -u\nunsetopt beep\n\
                     PS1='{PROMPT}'\n{functions}"
                ),
                "env ZDOTDIR=home zsh -d -i",
            ),
            Self::Fish => {
                let folder = home.join("fish/completions");
                fs::create_dir_all(&folder).unwrap();
                let functions = PROGRAMS.map(|program| {
                    let script = Path::new(SCRIPTS).join("larder.fish");
                    fs::copy(script, folder.join(format!("{program}.fish"))).unwrap();
                    format!(
                        "function {program}\n if test \"$argv[1]\" = complete\n  command {program} $argv\n \
                         else\n  printf '%s\\0' $argv > args\n end\nend\n"
                    )
                });
                let functions = functions.concat();
                (
                    "fish/config.fish",
                    format!(
                        "set fish_greeting\nfunction fish_prompt\n echo '{PROMPT}'\nend\n{functions}"
                    ),
                    "env XDG_CONFIG_HOME=home XDG_DATA_HOME=home fish -i",
                )
            }
        };
        let file = home.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, lines).unwrap();
        command
    }
}

/// A folder with an image, in which the shells run.
struct Place {
    fixture: Fixture,
}

impl Place {
    /// Returns the place, or `None` if a tool is missing.
    fn new() -> Option<Self> {
        if !can_make_images() || skip(&[Requirement::Tool("script")]) {
            return None;
        }
        let fixture = Fixture::new();
        let hostile = fixture.path("tree/hostile");
        fs::create_dir(&hostile).unwrap();
        for name in HOSTILE {
            fs::write(hostile.join(name_of(name)), "").unwrap();
        }
        fixture.make_image("ext4", "");
        fs::rename(fixture.image(), fixture.path("disk.img")).unwrap();
        fs::create_dir(fixture.path("mountpoint")).unwrap();
        fs::create_dir(fixture.path("bin")).unwrap();
        let binary = support::binary();
        let lab = binary.with_file_name("larder-lab");
        assert!(lab.exists(), "{}: build it first", lab.display());
        // The completion of larder-remote is that of larder.
        for (name, program) in PROGRAMS.into_iter().zip([binary, &lab, binary]) {
            symlink(program, fixture.path("bin").join(name)).unwrap();
        }
        Some(Self { fixture })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.fixture.path(name)
    }

    /// Types `line` in `shell`, and returns the arguments of the command that the shell runs.
    #[track_caller]
    fn typed(&self, shell: Shell, line: &str) -> Vec<Vec<u8>> {
        let command = shell.set_up(&self.path("home"));
        let search = format!(
            "{}:{}",
            self.path("bin").display(),
            std::env::var("PATH").unwrap_or_default()
        );
        let mut script = Command::new("script")
            .args(["-qec", command, "/dev/null"])
            .current_dir(self.path(""))
            .env("PATH", search)
            .env("HOME", self.path("home"))
            .env("TERM", "vt100")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = script.stdout.take().unwrap();
        let mut seen = Vec::new();
        let mut byte = [0];
        while !text(&seen).ends_with(PROMPT) && output.read(&mut byte).unwrap() > 0 {
            seen.push(byte[0]);
        }
        let mut input = script.stdin.take().unwrap();
        input
            .write_all(format!("{line}\nexit\n").as_bytes())
            .unwrap();
        drop(input);
        output.read_to_end(&mut seen).unwrap();
        script.wait().unwrap();
        let Ok(args) = fs::read(self.path("args")) else {
            panic!("{shell:?}: {line:?} ran no command: {}", text(&seen));
        };
        fs::remove_file(self.path("args")).unwrap();
        let args = args.strip_suffix(b"\0").unwrap_or(&args);
        args.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect()
    }

    /// Returns the output of the program for a completion script of zsh or fish. `words` follow the program's name.
    fn answer(&self, words: &[&str]) -> Vec<String> {
        let words = words
            .iter()
            .map(|word| word.replace("DIR", &self.path("").display().to_string()));
        let request = ["complete", "words", "larder"].map(str::to_owned);
        let output = larder_ok(request.into_iter().chain(words));
        output.split_terminator('\0').map(str::to_owned).collect()
    }
}

#[test]
fn commands_options_values_and_paths_are_completed_in_each_shell() {
    let Some(place) = Place::new() else { return };
    for shell in Shell::ALL {
        if skip(&[Requirement::Tool(shell.name())]) {
            continue;
        }
        for (line, expected) in [
            ("larder umo\t/x", "umount /x"),
            ("larder umount mou\t", "umount mountpoint"),
            ("larder mount --foreg\td m", "mount --foreground d m"),
            (
                "larder mount --readahead leg\td m",
                "mount --readahead legacy d m",
            ),
            (
                "larder mount --readahead=leg\td m",
                "mount --readahead=legacy d m",
            ),
            (
                "larder mount -o ro,da\torde\td m",
                "mount -o ro,data=ordered d m",
            ),
            ("larder mount --log=dis\td m", "mount --log=disk.img d m"),
            (
                "larder ls dis\t/di\tdee\tdee\t",
                "ls disk.img /dir/deep/deeper",
            ),
            (
                "larder cat disk.img /dir/em\thel\t",
                "cat disk.img /dir/empty hello",
            ),
            (
                "larder cat ./disk.img '/dir/em\t",
                "cat ./disk.img /dir/empty",
            ),
            (
                "larder ls disk.img:/di\tdee\tdee\t",
                "ls disk.img:/dir/deep/deeper",
            ),
            (
                "larder cat disk.img:/dir/em\tdis\t",
                "cat disk.img:/dir/empty disk.img",
            ),
            (
                "larder cp disk.img:/hel\tmou\t",
                "cp disk.img:/hello mountpoint",
            ),
            (
                "larder put f disk.img:/di\tla\t",
                "put f disk.img:/dir/large",
            ),
            (
                "larder diff dis\tdisk.img:/di\tdee\t",
                "diff disk.img disk.img:/dir/deep",
            ),
            (
                "larder export disk.img:/di\tdee\t",
                "export disk.img:/dir/deep",
            ),
            ("larder tar disk.img /di\tdee\t", "tar disk.img /dir/deep"),
            (
                "larder cp disk.img /hel\tmou\t",
                "cp disk.img /hello mountpoint",
            ),
            ("larder lab hash --ke\tx", "lab hash --keys x"),
            ("larder-lab hash --ke\tx", "hash --keys x"),
            ("larder-remote umo\t/x", "umount /x"),
        ] {
            let args = place.typed(shell, line);
            let args: Vec<String> = args.iter().map(|arg| text(arg)).collect();
            let args = args.join(" ");
            // At the end of the line, zsh removes the slash that it has added to the name of a directory.
            let args = args.trim_end_matches('/');
            assert_eq!(args, expected, "{shell:?}: {line:?}");
        }
    }
}

#[test]
fn hostile_names_are_inserted_literally_in_each_shell() {
    let Some(place) = Place::new() else { return };
    let begins = HOSTILE.map(|name| format!("/hostile/{}\t", char::from(name[0])));
    let mut expected: Vec<Vec<u8>> = vec![b"cat".to_vec(), b"disk.img".to_vec()];
    expected.extend(HOSTILE.map(|name| [b"/hostile/", name].concat()));
    for shell in Shell::ALL {
        if skip(&[Requirement::Tool(shell.name())]) {
            continue;
        }
        let line = format!("larder cat disk.img {}", begins.concat());
        let args = place.typed(shell, &line);
        assert_eq!(args.len(), expected.len(), "{shell:?}");
        for (arg, expected) in args.iter().zip(&expected) {
            assert_eq!(text(arg), text(expected), "{shell:?}");
            assert_eq!(arg, expected, "{shell:?}");
        }
        for quote in ["'", "\""] {
            let line = format!("larder cat disk.img {quote}/hostile/1\t");
            let args = place.typed(shell, &line);
            assert_eq!(
                text(&args[2]),
                "/hostile/1$(touch pwned)",
                "{shell:?} {quote}"
            );
        }
        // A second tab lists all names.
        place.typed(shell, "larder cat disk.img /hostile/\t\t");
        assert!(!place.path("pwned").exists(), "{shell:?}");
    }
}

#[test]
fn answer_lists_paths_of_the_partition_that_is_named() {
    let Some(place) = Place::new() else { return };
    let image = fs::read(place.path("disk.img")).unwrap();
    fs::write(
        place.path("moved.img"),
        [&[0; 4096], image.as_slice()].concat(),
    )
    .unwrap();
    let expected = ["paths", "", "/dir/", "", "/dir/again"];
    let words = ["cat", "--offset", "4096", "DIR/moved.img", "/dir"];
    assert_eq!(place.answer(&words)[..4], expected[..4]);
    let words = ["cat", "--offset=4096", "DIR/moved.img", "/dir/a"];
    assert_eq!(place.answer(&words), ["paths", "", "/dir/again", ""]);
    assert_eq!(place.answer(&["cat", "DIR/moved.img", "/dir"]), [""; 0]);
    let words = ["cat", "--offset=4096", "DIR/moved.img:/dir/a"];
    let image = format!("{}/moved.img:", place.path("").display());
    assert_eq!(place.answer(&words), ["paths", &image, "/dir/again", ""]);
    let words = ["cat", "DIR/disk.img", "/dir/again", "/link"];
    assert_eq!(place.answer(&words), ["paths", "", "/link", ""]);
}

#[test]
fn answer_is_empty_for_images_that_cannot_be_read() {
    let Some(place) = Place::new() else { return };
    let image = fs::read(place.path("disk.img")).unwrap();
    fs::write(place.path("garbage"), vec![0x5a; 1 << 20]).unwrap();
    fs::write(place.path("cut"), &image[..2048]).unwrap();
    let mut damaged = image;
    damaged[4096..].fill(0xff);
    fs::write(place.path("damaged"), damaged).unwrap();
    // Without care, opening a FIFO would wait for a writer.
    support::sh("mkfifo \"$1\"", &[&place.path("fifo")]);
    for image in ["garbage", "cut", "damaged", "fifo", "mountpoint", "none"] {
        let image = format!("DIR/{image}");
        assert_eq!(place.answer(&["ls", &image, "/"]), [""; 0], "{image}");
        let target = format!("{image}:/");
        assert_eq!(place.answer(&["put", "f", &target]), [""; 0], "{image}");
    }
    for words in [
        &["ls", "http://127.0.0.1:9/disk.img", "/"] as &[&str],
        &["cat", "--url-file", "DIR/garbage", "DIR/disk.img", "/"],
        &["ls", "DIR/disk.img", "/none/"],
        &["ls", "DIR/disk.img", "/hello/"],
        &["unknown", ""],
    ] {
        assert_eq!(place.answer(words), [""; 0], "{words:?}");
    }
}

#[test]
fn names_are_printed_as_they_are() {
    let Some(place) = Place::new() else { return };
    let image = place.path("disk.img");
    let output = support::larder([
        "complete".as_ref(),
        "words".as_ref(),
        "larder".as_ref(),
        "cat".as_ref(),
        image.as_os_str(),
        "/hostile/".as_ref(),
    ]);
    let mut names: Vec<&[u8]> = output
        .stdout
        .split(|&byte| byte == 0)
        .skip(2)
        .step_by(2)
        .collect();
    assert_eq!(names.pop(), Some(b"".as_slice()));
    let expected = HOSTILE.map(|name| [b"/hostile/", name].concat());
    assert_eq!(names, expected);
}
