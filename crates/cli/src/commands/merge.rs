//! What several outboxes answered, as one list.

/// At most so many of all lists, the least key first. Each list keeps its own order, which is that of its outbox: the
/// time that a producer gave may contradict it, and decides only which outbox comes next.
pub fn merged<T, K: Ord>(lists: Vec<Vec<T>>, limit: u32, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut lists: Vec<_> = lists
        .into_iter()
        .map(|list| list.into_iter().peekable())
        .collect();
    let mut merged = Vec::new();
    while merged.len() < limit as usize {
        let heads = lists.iter_mut().enumerate();
        let heads = heads.filter_map(|(at, list)| Some((key(list.peek()?), at)));
        let Some((_, first)) = heads.min() else { break };
        merged.extend(lists[first].next());
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_merged_and_each_keeps_its_order() {
        let lists = || vec![vec![1, 9, 4], vec![], vec![2, 3, 20]];
        assert_eq!(merged(lists(), 100, |n| *n), [1, 2, 3, 9, 4, 20]);
        assert_eq!(merged(lists(), 2, |n| *n), [1, 2]);
        assert_eq!(merged(lists(), 2, |n| -*n), [2, 3], "by the heads alone");
        assert!(merged(Vec::<Vec<u32>>::new(), 2, |n| *n).is_empty());
    }
}
