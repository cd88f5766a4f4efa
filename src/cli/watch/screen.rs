//! The terminal while a view has it: entered, left again whatever happens, and its keys.

use std::io::{self, BufWriter, Stdout, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{
    self, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use signal_hook::consts::{SIGCONT, SIGTSTP};
use signal_hook::low_level::emulate_default_handler;

use messages::exit::Failure;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use view::Key;

/// Whether a view has the terminal: a panic gives it back first.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal, taken by a view. Dropping it gives it back.
pub(super) struct Screen {
    pub(super) terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    /// Somebody wants this process to stop until it is told to go on.
    stop: Arc<AtomicBool>,
    /// It went on after somebody had stopped it: the terminal is no longer as it was.
    goes_on: Arc<AtomicBool>,
    /// More may have been read than was told: the terminal itself says nothing more of that.
    more: bool,
}

/// What a terminal says.
pub(super) enum Said {
    Key(Key),
    /// It has another size, or has to be drawn anew.
    Changed,
    /// Nothing within the time.
    Nothing,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// It cannot be written, or there are no signal handlers to be had.
    pub(super) fn take() -> Result<Screen, Failure> {
        let failed = |e: io::Error| Failure::internal(format!("the terminal cannot be used: {e}"));
        give_back_before_panics();
        let (stop, goes_on) = (Arc::default(), Arc::default());
        signal_hook::flag::register(SIGTSTP, Arc::clone(&stop)).map_err(failed)?;
        signal_hook::flag::register(SIGCONT, Arc::clone(&goes_on)).map_err(failed)?;
        enter().map_err(failed)?;
        let out = BufWriter::with_capacity(1 << 16, stdout());
        let terminal = Terminal::new(CrosstermBackend::new(out)).inspect_err(|_| leave());
        Ok(Screen {
            terminal: terminal.map_err(failed)?,
            stop,
            goes_on,
            more: false,
        })
    }

    /// Waits for what the terminal says.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn listen(&mut self, patience: Duration) -> io::Result<Said> {
        if self.stop.swap(false, Ordering::Relaxed) {
            self.suspend()?;
            return Ok(Said::Changed);
        }
        if self.goes_on.swap(false, Ordering::Relaxed) {
            self.take_again()?;
            return Ok(Said::Changed);
        }
        // crossterm reads a terminal that is gone for ever: it must not be asked then.
        let waits = stdin();
        let mut waits = [PollFd::new(waits.as_fd(), PollFlags::POLLIN)];
        let patience = if self.more { Duration::ZERO } else { patience };
        let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
        match poll(&mut waits, timeout) {
            // A signal came: a new size is told below, the others the next call looks at.
            Ok(_) | Err(Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        if waits[0].revents().is_some_and(|is| is.intersects(gone)) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match event::poll(Duration::ZERO) {
            Ok(more) => self.more = more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(Said::Nothing),
            Err(e) => return Err(e),
        }
        if !self.more {
            return Ok(Said::Nothing);
        }
        Ok(match event::read()? {
            Event::Key(pressed) => key(pressed).map_or(Said::Nothing, Said::Key),
            Event::Resize(_, _) => Said::Changed,
            Event::FocusGained | Event::FocusLost | Event::Mouse(_) | Event::Paste(_) => {
                Said::Nothing
            }
        })
    }

    /// Gives the terminal back and stops this process, as Ctrl-Z does; takes it again when it goes on.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        leave();
        emulate_default_handler(SIGTSTP)?;
        self.goes_on.store(false, Ordering::Relaxed);
        self.take_again()
    }

    fn take_again(&mut self) -> io::Result<()> {
        // What raw mode was entered from is what the shell left.
        disable_raw_mode()?;
        enter()?;
        self.terminal.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::Relaxed);
    execute!(stdout(), EnterAlternateScreen, cursor::Hide)
}

/// Gives the terminal back; what cannot be undone is gone with it.
fn leave() {
    if TAKEN.swap(false, Ordering::Relaxed) {
        let _ = execute!(stdout(), LeaveAlternateScreen, cursor::Show);
        let _ = stdout().flush();
        let _ = disable_raw_mode();
    }
}

/// Columns and rows of the terminal; `None`: there is none.
pub(super) fn size() -> Option<(u16, u16)> {
    terminal::size().ok()
}

/// The modes of the terminal, to be restored after somebody who could not do it.
pub(super) struct Modes(Option<Termios>);

impl Modes {
    pub(super) fn now() -> Modes {
        Modes(tcgetattr(stdin()).ok())
    }

    pub(super) fn restore(&self) {
        if let Some(modes) = &self.0 {
            let _ = tcsetattr(stdin(), OptionalActions::Now, modes);
        }
        let _ = execute!(stdout(), LeaveAlternateScreen, cursor::Show);
    }
}

/// A message of a panic is to be read on a terminal that works.
fn give_back_before_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            leave();
            before(info);
        }));
    });
}

/// The view's name of a key; `None`: it knows none.
fn key(pressed: KeyEvent) -> Option<Key> {
    if pressed.kind == KeyEventKind::Release {
        return None;
    }
    let control = pressed.modifiers.contains(KeyModifiers::CONTROL);
    let alt = pressed.modifiers.contains(KeyModifiers::ALT);
    match (pressed.code, control) {
        (KeyCode::Char('c'), true) => Some(Key::Interrupt),
        (KeyCode::Char('z'), true) => Some(Key::Suspend),
        (KeyCode::Char('u'), true) => Some(Key::Clear),
        (KeyCode::Char('h'), true) | (KeyCode::Backspace, _) => Some(Key::Backspace),
        (KeyCode::Char('d' | 'f'), true) | (KeyCode::PageDown, _) => Some(Key::PageDown),
        (KeyCode::Char('b'), true) | (KeyCode::PageUp, _) => Some(Key::PageUp),
        (KeyCode::Char('n'), true) | (KeyCode::Down, _) => Some(Key::Down),
        (KeyCode::Char('p'), true) | (KeyCode::Up, _) => Some(Key::Up),
        (KeyCode::Char(c), false) if !alt => Some(Key::Char(c)),
        (KeyCode::Enter, _) => Some(Key::Enter),
        (KeyCode::Esc, _) => Some(Key::Esc),
        (KeyCode::Tab, _) => Some(Key::Tab),
        (KeyCode::BackTab, _) => Some(Key::BackTab),
        (KeyCode::Left, _) => Some(Key::Left),
        (KeyCode::Right, _) => Some(Key::Right),
        (KeyCode::Home, _) => Some(Key::Home),
        (KeyCode::End, _) => Some(Key::End),
        (_, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_names_that_the_view_knows() {
        let of = |code, modifiers| key(KeyEvent::new(code, modifiers));
        let (none, control) = (KeyModifiers::NONE, KeyModifiers::CONTROL);
        assert_eq!(of(KeyCode::Char('q'), none), Some(Key::Char('q')));
        assert_eq!(
            of(KeyCode::Char('G'), KeyModifiers::SHIFT),
            Some(Key::Char('G'))
        );
        assert_eq!(of(KeyCode::Char('c'), control), Some(Key::Interrupt));
        assert_eq!(of(KeyCode::Char('z'), control), Some(Key::Suspend));
        assert_eq!(of(KeyCode::Char('x'), KeyModifiers::ALT), None);
        assert_eq!(of(KeyCode::F(1), none), None);
        let mut released = KeyEvent::new(KeyCode::Enter, none);
        released.kind = KeyEventKind::Release;
        assert_eq!(key(released), None);
    }
}
