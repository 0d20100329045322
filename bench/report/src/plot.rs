//! Plots as SVG: lines over a number, or bars or boxes over names; linear or logarithmic.

use crate::Spread;
use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const COLORS: [&str; 8] =
    ["#1f6fb4", "#d9541e", "#2a9d4b", "#8e44ad", "#b8860b", "#c2185b", "#00838f", "#5d4037"];

/// With more different values of x, six even marks are drawn.
const MOST_MARKS: usize = 24;

/// A series of values.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// The series' name in the legend.
    pub name: String,
    /// (x, y, deviation); for bars x is the index of the name.
    pub points: Vec<(f64, f64, f64)>,
}

/// A plot.
#[derive(Clone, PartialEq, Debug)]
pub struct Plot {
    /// The title above.
    pub title: String,
    /// The label below.
    pub x: String,
    /// The label to the left.
    pub y: String,
    /// True if y grows by factors.
    pub logarithmic: bool,
    /// Names for bars; empty: lines.
    pub names: Vec<String>,
    /// The drawn series.
    pub series: Vec<Series>,
    /// Boxes in the place of bars: for each series and name the spread of the runs, `None` where there are none; empty: bars.
    pub boxes: Vec<Vec<Option<Spread>>>,
}

struct Axes {
    x: (f64, f64),
    y: (f64, f64),
    logarithmic: bool,
}

impl Axes {
    fn of(plot: &Plot) -> Self {
        let all = || plot.series.iter().flat_map(|s| &s.points);
        let ends = || plot.boxes.iter().flatten().flatten().map(Spread::ends);
        let top =
            all().map(|p| p.1 + p.2).chain(ends().map(|(_, high)| high)).fold(f64::MIN_POSITIVE, f64::max);
        let low =
            all().map(|p| p.1).chain(ends().map(|(low, _)| low)).filter(|y| *y > 0.0).fold(top, f64::min);
        let y = if plot.logarithmic {
            (10f64.powf(low.log10().floor()), 10f64.powf(top.log10().ceil()))
        } else {
            (0.0, top * 1.05)
        };
        let x = if plot.names.is_empty() {
            (all().map(|p| p.0).fold(f64::MAX, f64::min), all().map(|p| p.0).fold(f64::MIN, f64::max))
        } else {
            (-0.5, plot.names.len() as f64 - 0.5)
        };
        Axes { x, y, logarithmic: plot.logarithmic }
    }

    fn px(&self, x: f64) -> f64 {
        LEFT + (x - self.x.0) / (self.x.1 - self.x.0).max(f64::MIN_POSITIVE) * (WIDTH - LEFT - RIGHT)
    }

    fn py(&self, y: f64) -> f64 {
        let share = if self.logarithmic {
            (y.max(self.y.0) / self.y.0).log10() / (self.y.1 / self.y.0).log10().max(f64::MIN_POSITIVE)
        } else {
            y / self.y.1.max(f64::MIN_POSITIVE)
        };
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }

    fn marks(&self) -> Vec<f64> {
        if self.logarithmic {
            return std::iter::successors(Some(self.y.0), |v| Some(v * 10.0))
                .take_while(|v| *v <= self.y.1 * 1.001)
                .collect();
        }
        (0..=5).map(|i| self.y.1 * f64::from(i) / 5.0).collect()
    }
}

impl Plot {
    /// The plot as an SVG document.
    pub fn svg(&self) -> String {
        let axes = Axes::of(self);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        text(&mut out, WIDTH / 2.0, TOP / 2.0, "middle", &self.title);
        text(&mut out, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12.0, "middle", &self.x);
        let _ = writeln!(
            out,
            "<text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            HEIGHT / 2.0,
            escape(&self.y)
        );
        self.draw_grid(&axes, &mut out);
        for (index, series) in self.series.iter().enumerate() {
            let color = COLORS[index % COLORS.len()];
            if self.names.is_empty() {
                draw_line(&axes, series, color, &mut out);
            } else if let Some(boxes) = self.boxes.get(index) {
                self.draw_boxes(&axes, index, boxes, color, &mut out);
            } else {
                self.draw_bars(&axes, index, series, color, &mut out);
            }
            let y = TOP + 16.0 * index as f64 + 8.0;
            let x = WIDTH - RIGHT + 12.0;
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{color}\"/>",
                y - 9.0
            );
            text(&mut out, x + 16.0, y, "start", &series.name);
        }
        out.push_str("</svg>\n");
        out
    }

    fn draw_grid(&self, axes: &Axes, out: &mut String) {
        for mark in axes.marks() {
            let y = axes.py(mark);
            let _ = writeln!(
                out,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>",
                WIDTH - RIGHT
            );
            text(out, LEFT - 6.0, y + 4.0, "end", &crate::number(mark));
        }
        if self.names.is_empty() {
            let mut marks: Vec<f64> = self.series.iter().flat_map(|s| s.points.iter().map(|p| p.0)).collect();
            marks.sort_by(f64::total_cmp);
            marks.dedup();
            if marks.len() > MOST_MARKS {
                marks = (0..=5).map(|i| axes.x.0 + (axes.x.1 - axes.x.0) * f64::from(i) / 5.0).collect();
            }
            for mark in marks {
                text(out, axes.px(mark), HEIGHT - BOTTOM + 16.0, "middle", &label(mark));
            }
        }
        for (index, name) in self.names.iter().enumerate() {
            text(out, axes.px(index as f64), HEIGHT - BOTTOM + 16.0, "middle", name);
        }
    }

    fn draw_boxes(&self, axes: &Axes, index: usize, boxes: &[Option<Spread>], color: &str, out: &mut String) {
        let slot = axes.px(0.8) - axes.px(0.0);
        let width = slot / self.boxes.len().max(1) as f64;
        for (place, spread) in boxes.iter().enumerate() {
            let left = axes.px(place as f64) - slot / 2.0 + width * index as f64;
            if let Some(spread) = spread {
                spread.draw(left + width / 2.0, 0.8 * width, color, |value| axes.py(value), out);
            }
        }
    }

    fn draw_bars(&self, axes: &Axes, index: usize, series: &Series, color: &str, out: &mut String) {
        let slot = axes.px(0.8) - axes.px(0.0);
        let width = slot / self.series.len().max(1) as f64;
        for (x, y, deviation) in &series.points {
            let left = axes.px(*x) - slot / 2.0 + width * index as f64;
            let top = axes.py(*y);
            let _ = writeln!(
                out,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{color}\"/>",
                HEIGHT - BOTTOM - top
            );
            whisker(axes, left + width / 2.0, *y, *deviation, "#333", out);
        }
    }
}

fn draw_line(axes: &Axes, series: &Series, color: &str, out: &mut String) {
    let path: Vec<String> =
        series.points.iter().map(|(x, y, _)| format!("{:.1},{:.1}", axes.px(*x), axes.py(*y))).collect();
    let _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.5\"/>",
        path.join(" ")
    );
    for (x, y, deviation) in &series.points {
        let (px, py) = (axes.px(*x), axes.py(*y));
        let _ = writeln!(out, "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"2.5\" fill=\"{color}\"/>");
        whisker(axes, px, *y, *deviation, color, out);
    }
}

fn whisker(axes: &Axes, x: f64, y: f64, deviation: f64, color: &str, out: &mut String) {
    if deviation > 0.0 {
        let (low, high) = (axes.py(y - deviation), axes.py(y + deviation));
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{low:.1}\" y2=\"{high:.1}\" stroke=\"{color}\"/>"
        );
    }
}

/// A number on the x axis, with the fewest necessary digits.
fn label(mark: f64) -> String {
    if mark.fract() == 0.0 { format!("{mark}") } else { crate::number(mark) }
}

fn escape(s: &str) -> String {
    s.replace('&', "&amp;").replace('<', "&lt;")
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, content: &str) {
    let content = escape(content);
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{content}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_stand_over_their_names() {
        let spread = Spread::of(&[1.0, 2.0, 3.0, 40.0]);
        let series = ["a", "b"].map(|name| Series { name: name.to_owned(), points: Vec::new() });
        let plot = Plot {
            title: String::new(),
            x: String::new(),
            y: String::new(),
            logarithmic: false,
            names: vec!["one".into(), "two".into()],
            series: series.into(),
            boxes: vec![vec![spread.clone(), None], vec![spread.clone(), spread]],
        };
        let svg = plot.svg();
        assert_eq!(svg.matches("fill-opacity").count(), 3);
        assert!(!svg.contains("NaN") && svg.contains(">two<"), "{svg}");
    }

    #[test]
    fn every_point_lies_inside() {
        for logarithmic in [false, true] {
            for names in [vec![], vec!["a".to_owned(), "b".to_owned()]] {
                let series =
                    Series { name: "s".to_owned(), points: vec![(0.0, 5.0, 1.0), (1.0, 5000.0, 0.0)] };
                let plot = Plot {
                    title: "t <&".to_owned(),
                    x: String::new(),
                    y: String::new(),
                    logarithmic,
                    names,
                    boxes: Vec::new(),
                    series: vec![series],
                };
                let svg = plot.svg();
                assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }
}
