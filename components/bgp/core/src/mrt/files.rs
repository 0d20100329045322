//! The files of a kind of trace: names, times and number.

use super::{FileSettings, TraceKind};
use alloc::vec::Vec;
use core::fmt;
use time::{Date, Month, OffsetDateTime, PrimitiveDateTime};

/// The ending of whole files.
const ENDING: &str = "mrt";
/// The ending of a file that is being written, after [`ENDING`].
const PART: &str = "part";

/// Returns the next time at which a file begins, in seconds since 1970: the next multiple of `interval` seconds after `now`. Routers with
/// the same interval begin their files at the same time. An interval of 0 counts as 1.
pub const fn next_time(now: u64, interval: u32) -> u64 {
    let interval = if interval == 0 { 1 } else { interval as u64 };
    (now / interval).saturating_add(1).saturating_mul(interval)
}

/// The name of a file: `rib.20261126.203000.mrt` has the routes of 20:30 on 26 November 2026, UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FileName {
    /// The content.
    pub kind: TraceKind,
    /// The beginning of the trace, in seconds since 1970.
    pub time: u64,
    /// True while the file is being written.
    pub is_part: bool,
}

impl FileName {
    /// The name of a whole file.
    pub const fn new(kind: TraceKind, time: u64) -> Self {
        FileName { kind, time, is_part: false }
    }

    /// Returns the name of the same file while the file is being written.
    pub const fn part(self) -> Self {
        FileName { is_part: true, ..self }
    }

    /// Reads the name of a file of this kind; `None` for files that are no traces of the kind.
    pub fn read(kind: TraceKind, name: &str) -> Option<Self> {
        let rest = name.strip_prefix(kind.prefix())?.strip_prefix('.')?;
        let (date, rest) = rest.split_once('.')?;
        let (clock, ending) = rest.split_once('.')?;
        let is_part = match ending.strip_prefix(ENDING)? {
            "" => false,
            ending if ending.strip_prefix('.') == Some(PART) => true,
            _ => return None,
        };
        let (date, clock) = (digits::<4>(date)?, digits::<3>(clock)?);
        let year = i32::from(date[0]) * 100 + i32::from(date[1]);
        let date = Date::from_calendar_date(year, Month::try_from(date[2]).ok()?, date[3]).ok()?;
        let time = date.with_hms(clock[0], clock[1], clock[2]).ok()?.assume_utc().unix_timestamp();
        let time = u64::try_from(time).ok()?;
        Some(FileName { kind, time, is_part })
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time =
            i64::try_from(self.time).ok().and_then(|time| OffsetDateTime::from_unix_timestamp(time).ok());
        // Later than the year 9999: no clock shows it.
        let time = time.unwrap_or(PrimitiveDateTime::MAX.assume_utc());
        let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
        let (hour, minute, second) = time.to_hms();
        let prefix = self.kind.prefix();
        write!(f, "{prefix}.{year:04}{month:02}{day:02}.{hour:02}{minute:02}{second:02}.{ENDING}")?;
        if self.is_part { write!(f, ".{PART}") } else { Ok(()) }
    }
}

/// A file in the folder of a kind of trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredFile {
    /// The name.
    pub name: FileName,
    /// The octets.
    pub octets: u64,
}

/// Returns the whole files to remove, oldest first: those beyond the number and the size of the settings. The newest file stays.
pub fn surplus(settings: &FileSettings, mut files: Vec<StoredFile>) -> Vec<FileName> {
    files.retain(|file| !file.name.is_part);
    files.sort_unstable_by_key(|file| core::cmp::Reverse(file.name.time));
    let mut octets = 0_u64;
    let mut kept = 0_u16;
    let mut removed: Vec<FileName> = Vec::new();
    for file in files {
        octets = octets.saturating_add(file.octets);
        let fits = removed.is_empty() && kept < settings.keep && octets <= settings.octets();
        if kept == 0 || fits {
            kept += 1;
        } else {
            removed.push(file.name);
        }
    }
    removed.reverse();
    removed
}

/// Reads so many numbers of two digits each.
fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_number = text.len() == 2 * N && text.bytes().all(|octet| octet.is_ascii_digit());
    let pair = |place: usize| text.get(2 * place..2 * place + 2)?.parse().ok();
    let numbers = is_number.then(|| core::array::from_fn::<Option<u8>, N, _>(pair))?;
    numbers.iter().all(Option::is_some).then(|| numbers.map(Option::unwrap_or_default))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const KIND: TraceKind = TraceKind::Table;

    #[test]
    fn names_have_the_time_and_are_read_again() {
        for (time, text) in [
            (0, "rib.19700101.000000.mrt"),
            (1_582_934_400, "rib.20200229.000000.mrt"),
            (1_795_725_005, "rib.20261126.203005.mrt"),
            (4_107_542_399, "rib.21000228.235959.mrt"),
        ] {
            let name = FileName::new(KIND, time);
            assert_eq!(name.to_string(), text);
            assert_eq!(FileName::read(KIND, text), Some(name));
            assert_eq!(FileName::read(KIND, &std::format!("{text}.part")), Some(name.part()));
        }
        for day in 0..60_000 {
            let name = FileName::new(KIND, day * 86_400);
            assert_eq!(FileName::read(KIND, &name.to_string()), Some(name));
        }
    }

    #[test]
    fn other_names_are_not_of_the_router() {
        for name in [
            "",
            "rib",
            "rib.mrt",
            "rib.20261126.203000",
            "rib.20261126.203000.mrt.gz",
            "rib.20261126.203000.mrtpart",
            "rib.20261126.203000.mrt.part.part",
            "rib.20261126.243000.mrt",
            "rib.20261126.206000.mrt",
            "rib.20261126.2030.mrt",
            "rib.20261126.+20300.mrt",
            "rib.20260229.000000.mrt",
            "rib.20261301.000000.mrt",
            "rib.20261100.000000.mrt",
            "rib.00000101.000000.mrt",
            "ribs.20261126.203000.mrt",
            "../rib.20261126.203000.mrt",
        ] {
            assert_eq!(FileName::read(KIND, name), None, "{name}");
        }
    }

    #[test]
    fn files_begin_at_multiples_of_the_interval() {
        assert_eq!(next_time(0, 300), 300);
        assert_eq!(next_time(299, 300), 300);
        assert_eq!(next_time(300, 300), 600);
        assert_eq!(next_time(7, 0), 8);
        assert_eq!(next_time(u64::MAX, 2), u64::MAX);
    }

    #[test]
    fn the_oldest_files_beyond_number_and_size_go() {
        let file = |time, mib: u64| StoredFile { name: FileName::new(KIND, time), octets: mib << 20 };
        let settings = FileSettings { keep: 2, maximum_size: 10, ..FileSettings::default() };
        let removed = |files: &[StoredFile]| {
            surplus(&settings, files.to_vec()).iter().map(|name| name.time).collect::<Vec<_>>()
        };
        assert!(removed(&[]).is_empty());
        assert_eq!(removed(&[file(3, 1), file(1, 1), file(2, 1)]), [1]);
        // The newest stays, however large it is; a file that does not fit takes the older ones along.
        assert_eq!(removed(&[file(3, 99), file(2, 1)]), [2]);
        assert_eq!(removed(&[file(1, 0), file(3, 2), file(2, 9)]), [1, 2]);
        let part = StoredFile { name: FileName::new(KIND, 0).part(), octets: 1 << 40 };
        assert!(removed(&[file(3, 4), part, file(2, 6)]).is_empty());
    }
}
