//! A table on the terminal: the first column aligned left, the remaining ones right.

/// The table as text, with a line under its head.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|h| h.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let mut out = line(&head.iter().map(|h| (*h).to_owned()).collect::<Vec<_>>());
    out.push_str(&line(&widths.iter().map(|w| "-".repeat(*w)).collect::<Vec<_>>()));
    rows.iter().for_each(|row| out.push_str(&line(row)));
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["bcd".to_owned(), "23".to_owned()]];
        assert_eq!(super::table(&["n", "v"], &rows), "n     v\n---  --\na     1\nbcd  23\n");
    }
}
