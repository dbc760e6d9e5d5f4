//! A fixed array that starts as zeros and becomes resident where it is touched.
#![allow(unsafe_code, reason = "views zeroed memory as an array of atomics")]

pub(crate) use super::region::Pages;
use std::io;

/// A type whose value is valid when all of its bytes are zero, and equal to its
/// default then.
///
/// # Safety
/// All-zero bytes must be a valid value, and the type must not need dropping.
pub(crate) unsafe trait Zeroed: Default + Send + Sync {}

// SAFETY: an atomic integer is valid at any value, and has no drop.
unsafe impl Zeroed for crate::sync::AtomicU32 {}
// SAFETY: a slot is a struct of atomic integers alone.
unsafe impl<const W: usize> Zeroed for crate::table::Slot<W> {}

/// `len` values of `T`, in place for good.
#[cfg(not(shuttle))]
#[derive(Debug)]
pub(crate) struct Array<T> {
    region: super::Region,
    len: usize,
    values: std::marker::PhantomData<T>,
}

#[cfg(not(shuttle))]
impl<T: Zeroed> Array<T> {
    /// `len` zeroed values.
    ///
    /// # Errors
    /// The kernel's, for want of address space most likely.
    pub(crate) fn zeroed(len: usize, pages: Pages) -> io::Result<Self> {
        const { assert!(align_of::<T>() <= 4096 && !std::mem::needs_drop::<T>()) };
        let len_bytes = len
            .checked_mul(size_of::<T>())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            region: super::Region::new(len_bytes, pages)?,
            len,
            values: std::marker::PhantomData,
        })
    }

    /// Gives the memory of the values from `first` on, all of which are zero already, back to the
    /// kernel, as far as it fills whole pages. Who reads one meanwhile sees no change.
    pub(crate) fn discard_from(&self, first: usize) {
        self.region.discard_from(first * size_of::<T>());
    }
}

#[cfg(not(shuttle))]
impl<T: Zeroed> std::ops::Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the region is `len` values long (or longer), is aligned to
        // pages, was zeroed, which is a valid `T`, and lives as long as `self`.
        // No one makes exclusive references to it.
        unsafe { std::slice::from_raw_parts(self.region.at(0).as_ptr().cast::<T>(), self.len) }
    }
}

/// Under the model checker atomics have state of their own, so they are made
/// one by one.
#[cfg(shuttle)]
#[derive(Debug)]
pub(crate) struct Array<T>(Box<[T]>);

#[cfg(shuttle)]
impl<T: Zeroed> Array<T> {
    pub(crate) fn zeroed(len: usize, _: Pages) -> io::Result<Self> {
        Ok(Self((0..len).map(|_| T::default()).collect()))
    }

    #[expect(clippy::unused_self, reason = "as without the model checker")]
    pub(crate) fn discard_from(&self, _: usize) {}
}

#[cfg(shuttle)]
impl<T> std::ops::Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}
