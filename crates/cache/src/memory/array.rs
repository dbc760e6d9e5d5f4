//! A fixed array that starts as zeros and becomes resident when it is touched.
#![allow(unsafe_code, reason = "views zeroed memory as an array of atomics")]

pub(crate) use super::region::Pages;
use std::io;
#[cfg(not(shuttle))]
use std::ptr::NonNull;

/// A type for which all-zero bytes are a valid value, equal to its default.
///
/// # Safety
/// All-zero bytes must be a valid value, and the type must not need dropping.
pub(crate) unsafe trait Zeroed: Default + Send + Sync {}

// SAFETY: an atomic integer is valid at any value, and has no drop.
unsafe impl Zeroed for crate::sync::AtomicU32 {}
// SAFETY: a slot is a struct of atomic integers alone.
unsafe impl<const W: usize> Zeroed for crate::table::Slot<W> {}

/// An array of `len` values of `T`, which never moves.
#[cfg(not(shuttle))]
#[derive(Debug)]
pub(crate) struct Array<T> {
    region: super::Region,
    /// The start of the region.
    values: NonNull<T>,
    len: usize,
}

// SAFETY: it owns `len` values of `T`, which is `Send`.
#[cfg(not(shuttle))]
unsafe impl<T: Zeroed> Send for Array<T> {}
// SAFETY: it provides only shared references to a `T`, which is `Sync`.
#[cfg(not(shuttle))]
unsafe impl<T: Zeroed> Sync for Array<T> {}

#[cfg(not(shuttle))]
impl<T: Zeroed> Array<T> {
    /// Creates an array of `len` zeroed values.
    ///
    /// # Errors
    /// Those of the kernel, most likely because there is not enough address space.
    pub(crate) fn zeroed(len: usize, pages: Pages) -> io::Result<Self> {
        const { assert!(align_of::<T>() <= 4096 && !std::mem::needs_drop::<T>()) };
        let len_bytes = len
            .checked_mul(size_of::<T>())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let region = super::Region::new(len_bytes, pages)?;
        Ok(Self {
            values: region.at(0).cast(),
            region,
            len,
        })
    }

    /// Prefetches the value at `index`, if there is one.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        #[cfg(target_arch = "x86_64")]
        if let Some(value) = self.get(index) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: every x86-64 processor has the instruction, which changes nothing that a
            // program can observe.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = index;
    }

    /// Returns the memory of the values from `first` on to the kernel, as far as it fills whole
    /// pages. All of these values must be zero already, so a concurrent reader sees no change.
    pub(crate) fn discard_from(&self, first: usize) {
        self.region.discard_from(first * size_of::<T>());
    }
}

#[cfg(not(shuttle))]
impl<T: Zeroed> std::ops::Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the region has space for at least `len` values, is aligned to pages, was zeroed,
        // which is a valid `T`, and lives as long as `self`. No exclusive references to it exist.
        unsafe { std::slice::from_raw_parts(self.values.as_ptr(), self.len) }
    }
}

/// Under the model checker, atomics have state of their own, so they are created one by one.
#[cfg(shuttle)]
#[derive(Debug)]
pub(crate) struct Array<T>(Box<[T]>);

#[cfg(shuttle)]
impl<T: Zeroed> Array<T> {
    pub(crate) fn zeroed(len: usize, _: Pages) -> io::Result<Self> {
        Ok(Self((0..len).map(|_| T::default()).collect()))
    }

    #[expect(clippy::unused_self, reason = "as without the model checker")]
    pub(crate) fn prefetch(&self, _: usize) {}

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
