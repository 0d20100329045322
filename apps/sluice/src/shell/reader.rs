//! The reader's thread: reads lines from the terminal.

use super::history;
use crate::command_line::complete::Completion;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{
    Cmd, CompletionType, ConditionalEventHandler, Config, Context, Editor, Event, EventContext, EventHandler,
    Helper, KeyEvent, RepeatCount,
};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc as blocking};
use std::time::Duration;
use tokio::sync::mpsc;

/// Requests of the reader to the main thread.
pub enum Ask {
    /// Lines were entered: a typed line, or several pasted lines.
    Lines(Vec<String>),
    /// The text requested by [`Reader::text`]; `None` if the operator canceled.
    Text(Option<String>),
    /// Tab was pressed behind the text.
    Complete(String),
    /// `?` was pressed behind the text.
    Help(String),
}

enum Answer {
    Prompt(String),
    Found(Completion),
    Remember(String),
    Text,
    Stop,
}

/// The main thread's end of the channel to the reader.
pub struct Reader(blocking::SyncSender<Answer>);

impl Reader {
    /// Requests the next line.
    pub fn prompt(&self, prompt: String) {
        // A reader that is gone asks no more either.
        let _ = self.0.send(Answer::Prompt(prompt));
    }

    /// Requests a text of any number of lines, up to Ctrl-D at the beginning of a line.
    pub fn text(&self) {
        let _ = self.0.send(Answer::Text);
    }

    /// Drops lines typed or pasted behind a failed line: the lines were meant for a router on which the failed line had
    /// succeeded.
    pub fn stop(&self) {
        let _ = self.0.send(Answer::Stop);
    }

    /// Sends the completions.
    pub fn answer(&self, found: Completion) {
        let _ = self.0.send(Answer::Found(found));
    }

    /// Keeps a line in the history, unless forbidden.
    pub fn remember(&self, line: &str, may_be_kept: bool) {
        if may_be_kept && !line.trim().is_empty() {
            let _ = self.0.send(Answer::Remember(line.into()));
        }
    }
}

/// Starts the thread. The thread ends with its end of the channel.
pub fn start() -> (Reader, mpsc::Receiver<Ask>) {
    let (ask, asked) = mpsc::channel(1);
    let (answer, answers) = blocking::sync_channel(2);
    std::thread::spawn(move || {
        if let Err(error) = read_lines(ask, &Arc::new(answers.into())) {
            sluice_print::errln!("sluice: the terminal cannot be read: {error}");
        }
    });
    (Reader(answer), asked)
}

type Answers = std::sync::Mutex<blocking::Receiver<Answer>>;

fn receive(answers: &Answers) -> Option<Answer> {
    answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv().ok()
}

/// Stands for no position of the cursor: `?` was not pressed.
const NOWHERE: usize = usize::MAX;

/// The pause that ends a paste: terminals send a long paste in several pieces.
const BETWEEN_PIECES: Duration = Duration::from_millis(100);

/// The present meaning of keys, shared with the handlers of the line editor.
#[derive(Default)]
struct Keys {
    /// The cursor's offset when `?` was pressed.
    question: AtomicUsize,
    /// Every key stands for itself: a text is read.
    literal: AtomicBool,
}

type Line = Editor<Asking, DefaultHistory>;

fn line_editor(
    ask: &mpsc::Sender<Ask>,
    answers: &Arc<Answers>,
    keys: &Arc<Keys>,
) -> Result<Line, ReadlineError> {
    let config = Config::builder()
        .max_history_size(history::LINES)?
        .history_ignore_dups(true)?
        .completion_type(CompletionType::List)
        .build();
    let mut editor: Line = Editor::with_config(config)?;
    let helper = Asking { ask: ask.clone(), answers: Arc::clone(answers), keys: Arc::clone(keys) };
    editor.set_helper(Some(helper));
    let handler = Question(Arc::clone(keys));
    editor.bind_sequence(KeyEvent::from('?'), EventHandler::Conditional(Box::new(handler)));
    if let Some(file) = history::file() {
        // A history that cannot be read is an empty one.
        let _ = editor.load_history(&file);
    }
    Ok(editor)
}

fn read_lines(ask: mpsc::Sender<Ask>, answers: &Arc<Answers>) -> Result<(), ReadlineError> {
    let keys = Arc::new(Keys { question: AtomicUsize::new(NOWHERE), literal: AtomicBool::new(false) });
    let mut editor = line_editor(&ask, answers, &keys)?;
    let mut left = (String::new(), String::new());
    while let Some(answer) = receive(answers) {
        let asked = match answer {
            Answer::Prompt(prompt) => match read_line(&mut editor, &prompt, &mut left, &keys)? {
                Some(asked) => asked,
                None => return Ok(()),
            },
            Answer::Text => {
                keys.literal.store(true, Ordering::Relaxed);
                let text = read_text(&mut editor);
                keys.literal.store(false, Ordering::Relaxed);
                Ask::Text(text?)
            }
            Answer::Stop => {
                // The line editor keeps octets that it has read and not used; a new one has none.
                editor = line_editor(&ask, answers, &keys)?;
                left = (String::new(), String::new());
                let dropped = drop_waiting();
                if dropped > 0 {
                    sluice_print::errln!(
                        "sluice: {dropped} more octets of input were dropped, and not carried out"
                    );
                }
                continue;
            }
            Answer::Remember(line) => {
                if editor.add_history_entry(&line).unwrap_or(false)
                    && let Some(file) = history::file()
                {
                    let _ = editor.append_history(&file);
                }
                continue;
            }
            Answer::Found(_) => continue,
        };
        if ask.blocking_send(asked).is_err() {
            break;
        }
    }
    Ok(())
}

/// Reads the operator's next input; `None` at the end of the input. `left` is the text already in the line.
fn read_line(
    editor: &mut Line,
    prompt: &str,
    left: &mut (String, String),
    keys: &Keys,
) -> Result<Option<Ask>, ReadlineError> {
    let prompt = match prompt.rsplit_once('\n') {
        Some((above, prompt)) => {
            sluice_print::outln!("{above}");
            prompt
        }
        None => prompt,
    };
    let initial = std::mem::take(left);
    loop {
        match editor.readline_with_initial(prompt, (&initial.0, &initial.1)) {
            Ok(line) => {
                let at = keys.question.swap(NOWHERE, Ordering::Relaxed);
                if at == NOWHERE {
                    return Ok(Some(Ask::Lines(line.lines().map(String::from).collect())));
                }
                let at = at.min(line.len());
                *left = (line[..at].into(), line[at..].into());
                return Ok(Some(Ask::Help(left.0.clone())));
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Reads lines up to the end of the input (Ctrl-D); `None` if the operator canceled (Ctrl-C).
fn read_text(editor: &mut Line) -> Result<Option<String>, ReadlineError> {
    let mut text = String::new();
    loop {
        match editor.readline("") {
            Ok(line) => text.extend([&line, "\n"]),
            Err(ReadlineError::Eof) => return Ok(Some(text)),
            Err(ReadlineError::Interrupted) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Drops the input waiting at the terminal, and the rest of a paste. Returns the number of dropped octets of whole
/// lines.
fn drop_waiting() -> usize {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let stdin = std::io::stdin();
    let mut dropped = 0;
    let mut wait = Duration::ZERO;
    let mut buffer = [0; 4096];
    let is_readable = |wait: Duration| {
        let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO);
        poll(&mut fds, timeout).is_ok_and(|n| n > 0)
    };
    while is_readable(wait) {
        match nix::unistd::read(stdin.as_fd(), &mut buffer) {
            Ok(n) if n > 0 => dropped += n,
            _ => break,
        }
        wait = BETWEEN_PIECES;
    }
    // A last line without an end is not readable yet.
    let _ = nix::sys::termios::tcflush(stdin.as_fd(), nix::sys::termios::FlushArg::TCIFLUSH);
    dropped
}

/// Handles `?` as a request for completions, except within quotes.
struct Question(Arc<Keys>);

impl ConditionalEventHandler for Question {
    fn handle(
        &self,
        _event: &Event,
        _n: RepeatCount,
        _positive: bool,
        ctx: &EventContext<'_>,
    ) -> Option<Cmd> {
        let before = ctx.line().get(..ctx.pos())?;
        if self.0.literal.load(Ordering::Relaxed) || sluice_cli::split(before).unclosed {
            return None;
        }
        self.0.question.store(ctx.pos(), Ordering::Relaxed);
        Some(Cmd::AcceptLine)
    }
}

/// Asks the main thread for completions.
struct Asking {
    ask: mpsc::Sender<Ask>,
    answers: Arc<Answers>,
    keys: Arc<Keys>,
}

impl Completer for Asking {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _ctx: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        if self.keys.literal.load(Ordering::Relaxed) {
            return Ok((pos, Vec::new()));
        }
        let text = line.get(..pos).unwrap_or(line).to_string();
        if self.ask.blocking_send(Ask::Complete(text)).is_err() {
            return Ok((pos, Vec::new()));
        }
        let Some(Answer::Found(found)) = receive(&self.answers) else { return Ok((pos, Vec::new())) };
        let only = found.words.len() == 1;
        let pair = |c: &sluice_cli::Candidate| {
            let replacement = sluice_cli::quoted(&c.text);
            // What is complete is followed by a blank; a folder is not complete.
            let blank = if only && !c.text.ends_with('/') { " " } else { "" };
            Pair { display: c.text.clone(), replacement: format!("{replacement}{blank}") }
        };
        Ok((found.start, found.words.iter().map(pair).collect()))
    }
}

impl Hinter for Asking {
    type Hint = String;
}
impl Highlighter for Asking {}
impl Validator for Asking {}
impl Helper for Asking {}
