//! Box plots: the spread of the runs of a measurement.

use std::fmt::Write;

/// The spread of values: the box is from the lower to the upper quartile, with a line at the median. The whiskers end at the furthest values
/// within 1.5 times the height of the box from the box (Tukey); values beyond are outliers.
#[derive(Clone, PartialEq, Debug)]
pub struct Spread {
    /// The end of the lower whisker.
    pub low: f64,
    /// The lower quartile.
    pub lower: f64,
    /// The median.
    pub median: f64,
    /// The upper quartile.
    pub upper: f64,
    /// The end of the upper whisker.
    pub high: f64,
    /// The values beyond the whiskers, in order.
    pub outliers: Vec<f64>,
}

impl Spread {
    /// Returns the spread of some values; `None` without values. Quartiles lie between the two nearest values in proportion.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let quantile = |share: f64| -> Option<f64> {
            let place = share * sorted.len().checked_sub(1)? as f64;
            let (below, above) = (*sorted.get(place.floor() as usize)?, *sorted.get(place.ceil() as usize)?);
            Some(below + (above - below) * place.fract())
        };
        let (lower, median, upper) = (quantile(0.25)?, quantile(0.5)?, quantile(0.75)?);
        let reach = 1.5 * (upper - lower);
        let is_near = |value: &f64| (lower - reach..=upper + reach).contains(value);
        let near = || sorted.iter().copied().filter(is_near);
        Some(Spread {
            low: near().fold(lower, f64::min),
            lower,
            median,
            upper,
            high: near().fold(upper, f64::max),
            outliers: sorted.iter().copied().filter(|value| !is_near(value)).collect(),
        })
    }

    /// Returns the least and the greatest value.
    pub(crate) fn ends(&self) -> (f64, f64) {
        let all = || self.outliers.iter().copied();
        (all().fold(self.low, f64::min), all().fold(self.high, f64::max))
    }

    /// Draws the box around the horizontal place `x`; `py` returns the vertical place of a value.
    pub(crate) fn draw(&self, x: f64, width: f64, color: &str, py: impl Fn(f64) -> f64, out: &mut String) {
        let (left, half) = (x - width / 2.0, width / 4.0);
        let [low, lower, median, upper, high] =
            [self.low, self.lower, self.median, self.upper, self.high].map(&py);
        let mut line = |x1: f64, y1: f64, x2: f64, y2: f64, wide: f64| {
            let _ = writeln!(
                out,
                "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{color}\" stroke-width=\"{wide}\"/>"
            );
        };
        for (from, to) in [(lower, low), (upper, high)] {
            line(x, from, x, to, 1.0);
            line(x - half, to, x + half, to, 1.0);
        }
        line(left, median, left + width, median, 2.0);
        let height = (lower - upper).max(0.5);
        let _ = writeln!(
            out,
            "<rect x=\"{left:.1}\" y=\"{upper:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{color}\" \
             fill-opacity=\"0.25\" stroke=\"{color}\"/>"
        );
        for outlier in &self.outliers {
            let y = py(*outlier);
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.5\" fill=\"none\" stroke=\"{color}\"/>"
            );
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_whiskers_and_outliers_are_those_of_tukey() {
        let values: Vec<f64> = (1..=20).map(f64::from).chain([100.0]).rev().collect();
        let spread = Spread::of(&values).unwrap();
        assert_eq!((spread.lower, spread.median, spread.upper), (6.0, 11.0, 16.0));
        assert_eq!((spread.low, spread.high, spread.outliers.clone()), (1.0, 20.0, vec![100.0]));
        assert_eq!(spread.ends(), (1.0, 100.0));
        let even = Spread::of(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((even.lower, even.median, even.upper), (1.75, 2.5, 3.25));
    }

    #[test]
    fn one_value_is_a_box_without_height_and_none_is_no_box() {
        let one = Spread::of(&[7.0]).unwrap();
        assert_eq!((one.low, one.median, one.high), (7.0, 7.0, 7.0));
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[f64::NAN]), None);
        let mut out = String::new();
        one.draw(10.0, 8.0, "red", |y| y, &mut out);
        assert!(out.contains("<rect") && !out.contains("NaN"), "{out}");
    }
}
