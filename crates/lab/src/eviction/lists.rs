//! Doubly linked lists of objects, such as LRU lists and FIFO queues.
//!
//! # Model
//! The lists of one policy share one array of links, indexed by the number of the object. So an object is in
//! at most one of the lists, and each operation takes constant time without hashing.

use super::access::Object;

/// A link to no object.
const NONE: Object = Object::MAX;

#[derive(Clone, Copy, Debug)]
struct Links {
    /// The neighbour in the direction of the head.
    newer: Object,
    /// The neighbour in the direction of the tail.
    older: Object,
    /// The list of the object; `N` if it is in none.
    list: u8,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    head: Object,
    tail: Object,
    len: usize,
}

/// `N` lists. Objects are added at the head; the tail has the object that was added first.
#[derive(Debug)]
pub(super) struct Lists<const N: usize> {
    links: Vec<Links>,
    ends: [Ends; N],
}

impl<const N: usize> Lists<N> {
    /// Creates empty lists for objects whose numbers are below `objects`.
    pub fn new(objects: usize) -> Self {
        let unlinked = Links {
            newer: NONE,
            older: NONE,
            list: Self::UNLISTED,
        };
        Self {
            links: vec![unlinked; objects],
            ends: [Ends {
                head: NONE,
                tail: NONE,
                len: 0,
            }; N],
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "there are at most four lists"
    )]
    const UNLISTED: u8 = N as u8;

    fn links(&mut self, object: Object) -> &mut Links {
        &mut self.links[object as usize]
    }

    /// Returns the list that contains the object.
    pub fn list_of(&self, object: Object) -> Option<usize> {
        let list = self.links[object as usize].list;
        (list != Self::UNLISTED).then_some(list.into())
    }

    /// Returns whether the list contains the object.
    pub fn contains(&self, list: usize, object: Object) -> bool {
        self.list_of(object) == Some(list)
    }

    /// Returns the number of objects in the list.
    pub fn len(&self, list: usize) -> usize {
        self.ends[list].len
    }

    /// Returns the object at the tail.
    pub fn tail(&self, list: usize) -> Option<Object> {
        let tail = self.ends[list].tail;
        (tail != NONE).then_some(tail)
    }

    /// Returns the neighbour of a listed object in the direction of the head.
    pub fn newer(&self, object: Object) -> Option<Object> {
        let newer = self.links[object as usize].newer;
        (newer != NONE).then_some(newer)
    }

    /// Moves the object to the head of `list`, from whichever list contains it.
    pub fn push(&mut self, list: usize, object: Object) {
        self.remove(object);
        let older = self.ends[list].head;
        *self.links(object) = Links {
            newer: NONE,
            older,
            list: u8::try_from(list).unwrap_or(Self::UNLISTED),
        };
        match older {
            NONE => self.ends[list].tail = object,
            older => self.links(older).newer = object,
        }
        let ends = &mut self.ends[list];
        ends.head = object;
        ends.len += 1;
    }

    /// Removes the object at the tail, and returns it.
    pub fn pop(&mut self, list: usize) -> Option<Object> {
        let tail = self.tail(list)?;
        self.remove(tail);
        Some(tail)
    }

    /// Removes the object from its list. Returns false if no list contains it.
    pub fn remove(&mut self, object: Object) -> bool {
        let Some(list) = self.list_of(object) else {
            return false;
        };
        let Links { newer, older, .. } = *self.links(object);
        match newer {
            NONE => self.ends[list].head = older,
            newer => self.links(newer).older = older,
        }
        match older {
            NONE => self.ends[list].tail = newer,
            older => self.links(older).newer = newer,
        }
        self.ends[list].len -= 1;
        self.links(object).list = Self::UNLISTED;
        true
    }
}
