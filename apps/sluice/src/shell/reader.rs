//! The thread that reads lines from the terminal.

use super::history;
use crate::complete::Completion;
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
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc as blocking};
use tokio::sync::mpsc;

/// What the reader asks of the thread that talks to the router.
pub enum Ask {
    /// A line was entered.
    Line(String),
    /// Tab was pressed behind this text.
    Complete(String),
    /// `?` was pressed behind this text.
    Help(String),
}

enum Answer {
    Prompt(String),
    Found(Completion),
    Remember(String),
}

/// The other end of the reader.
pub struct Reader(blocking::SyncSender<Answer>);

impl Reader {
    /// Has it read the next line.
    pub fn prompt(&self, prompt: String) {
        // A reader that is gone asks no more either.
        let _ = self.0.send(Answer::Prompt(prompt));
    }

    /// Says what may follow.
    pub fn answer(&self, found: Completion) {
        let _ = self.0.send(Answer::Found(found));
    }

    /// Keeps a line in the history, if it may be kept.
    pub fn remember(&self, line: &str, may_be_kept: bool) {
        if may_be_kept && !line.trim().is_empty() {
            let _ = self.0.send(Answer::Remember(line.into()));
        }
    }
}

/// Starts the thread. It ends with its end of the channel.
pub fn start() -> (Reader, mpsc::Receiver<Ask>) {
    let (ask, asked) = mpsc::channel(1);
    let (answer, answers) = blocking::sync_channel(2);
    std::thread::spawn(move || {
        if let Err(error) = read_lines(ask, &Arc::new(answers.into())) {
            eprintln!("sluice: the terminal cannot be read: {error}");
        }
    });
    (Reader(answer), asked)
}

type Answers = std::sync::Mutex<blocking::Receiver<Answer>>;

fn receive(answers: &Answers) -> Option<Answer> {
    answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv().ok()
}

/// Where the cursor was when `?` was pressed.
const NOWHERE: usize = usize::MAX;

fn read_lines(ask: mpsc::Sender<Ask>, answers: &Arc<Answers>) -> Result<(), ReadlineError> {
    let config = Config::builder()
        .max_history_size(history::LINES)?
        .history_ignore_dups(true)?
        .completion_type(CompletionType::List)
        .build();
    let mut editor: Editor<Asking, DefaultHistory> = Editor::with_config(config)?;
    let helper = Asking { ask: ask.clone(), answers: Arc::clone(answers) };
    editor.set_helper(Some(helper));
    let question = Arc::new(AtomicUsize::new(NOWHERE));
    let handler = Question(Arc::clone(&question));
    editor.bind_sequence(KeyEvent::from('?'), EventHandler::Conditional(Box::new(handler)));
    let file = history::file();
    if let Some(file) = &file {
        // A history that cannot be read is an empty one.
        let _ = editor.load_history(file);
    }
    let mut left = (String::new(), String::new());
    while let Some(answer) = receive(answers) {
        let prompt = match answer {
            Answer::Prompt(prompt) => prompt,
            Answer::Remember(line) => {
                if editor.add_history_entry(&line).unwrap_or(false)
                    && let Some(file) = &file
                {
                    let _ = editor.append_history(file);
                }
                continue;
            }
            Answer::Found(_) => continue,
        };
        let prompt = match prompt.rsplit_once('\n') {
            Some((above, prompt)) => {
                println!("{above}");
                prompt.to_string()
            }
            None => prompt,
        };
        let initial = std::mem::take(&mut left);
        let asked = loop {
            match editor.readline_with_initial(&prompt, (&initial.0, &initial.1)) {
                Ok(line) => {
                    let at = question.swap(NOWHERE, Ordering::Relaxed);
                    if at == NOWHERE {
                        break Ask::Line(line);
                    }
                    let at = at.min(line.len());
                    left = (line[..at].into(), line[at..].into());
                    break Ask::Help(left.0.clone());
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(()),
                Err(error) => return Err(error),
            }
        };
        if ask.blocking_send(asked).is_err() {
            break;
        }
    }
    Ok(())
}

/// `?` asks what may follow, but within quotes.
struct Question(Arc<AtomicUsize>);

impl ConditionalEventHandler for Question {
    fn handle(
        &self,
        _event: &Event,
        _n: RepeatCount,
        _positive: bool,
        ctx: &EventContext<'_>,
    ) -> Option<Cmd> {
        let before = ctx.line().get(..ctx.pos())?;
        if sluice_cli::split(before).unclosed {
            return None;
        }
        self.0.store(ctx.pos(), Ordering::Relaxed);
        Some(Cmd::AcceptLine)
    }
}

/// Asks the other thread what may follow.
struct Asking {
    ask: mpsc::Sender<Ask>,
    answers: Arc<Answers>,
}

impl Completer for Asking {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _ctx: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
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
