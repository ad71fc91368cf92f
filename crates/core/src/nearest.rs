//! Which of the known words somebody may have meant.

/// The known word that is nearest to a mistyped one; none when nothing is near enough to be worth suggesting.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Long words come from a paste, not from a slip of the finger, and the distance costs the product of both lengths.
    let word: Vec<char> = word.to_lowercase().chars().take(64).collect();
    known
        .into_iter()
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.chars().count() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance, one row at a time, with two letters in the wrong order as one slip: it is the most frequent
/// one, and as two it would lose against another word.
fn distance(word: &[char], candidate: &str) -> usize {
    let mut above: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=word.len()).collect();
    let mut last = None;
    for (n, c) in candidate.chars().enumerate() {
        let mut next = vec![n + 1];
        for (m, w) in word.iter().enumerate() {
            let replaced = row[m] + usize::from(*w != c);
            let mut best = replaced.min(next[m] + 1).min(row[m + 1] + 1);
            if m > 0 && last == Some(*w) && word[m - 1] == c {
                best = best.min(above[m - 1] + 1);
            }
            next.push(best);
        }
        above = std::mem::replace(&mut row, next);
        last = Some(c);
    }
    row[word.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let known = ["aggregate_type", "aggregate_id", "event_type", "key"];
        assert_eq!(nearest("agregate_type", known), Some("aggregate_type"));
        assert_eq!(nearest("AGGREGATE_ID", known), Some("aggregate_id"));
        assert_eq!(nearest("kye", known), Some("key"));
        assert_eq!(nearest("yek", known), None);
        assert_eq!(nearest("ky", known), Some("key"));
        assert_eq!(nearest("tenant", known), None);
        assert_eq!(
            nearest("ulr", ["user", "url"]),
            Some("url"),
            "letters change places first"
        );
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest(&"x".repeat(1 << 20), known), None);
    }
}
