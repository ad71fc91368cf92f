//! Values under small reusable numbers: cheaper to follow than keys of text, and iterated in a fixed order.

#[derive(Debug)]
pub(super) struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    pub(super) fn insert(&mut self, value: T) -> usize {
        match self.free.pop() {
            Some(id) => {
                self.values[id] = Some(value);
                id
            }
            None => {
                self.values.push(Some(value));
                self.values.len() - 1
            }
        }
    }

    pub(super) fn remove(&mut self, id: usize) -> Option<T> {
        let value = self.values.get_mut(id)?.take();
        if value.is_some() {
            self.free.push(id);
        }
        value
    }

    pub(super) fn get(&self, id: usize) -> Option<&T> {
        self.values.get(id)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: usize) -> Option<&mut T> {
        self.values.get_mut(id)?.as_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = usize> + '_ {
        self.values
            .iter()
            .enumerate()
            .filter(|(_, value)| value.is_some())
            .map(|(id, _)| id)
    }
}
