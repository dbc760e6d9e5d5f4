//! An array of fixed length whose values are zero at first and become resident when they are touched.
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
// SAFETY: a slot is a struct that contains only atomic integers.
unsafe impl<const W: usize> Zeroed for crate::table::Slot<W> {}

/// An array of `len` values of `T` at a fixed address.
#[cfg(not(shuttle))]
#[derive(Debug)]
pub(crate) struct Array<T> {
    region: super::Region,
    /// The start of the region.
    values: NonNull<T>,
    len: usize,
}

// SAFETY: an array owns `len` values of `T`, which is `Send`.
#[cfg(not(shuttle))]
unsafe impl<T: Zeroed> Send for Array<T> {}
// SAFETY: an array provides only shared references to its values of `T`, which is `Sync`.
#[cfg(not(shuttle))]
unsafe impl<T: Zeroed> Sync for Array<T> {}

#[cfg(not(shuttle))]
impl<T: Zeroed> Array<T> {
    /// Creates an array of `len` zeroed values.
    ///
    /// # Errors
    /// Returns the kernel's error, most likely because there is not enough address space.
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

    /// Prefetches the value at `index`, if `index` is below the length.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        #[cfg(target_arch = "x86_64")]
        if let Some(value) = self.get(index) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: every x86-64 processor has this instruction. It affects only the processor's
            // caches, and not the state of the program.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = index;
    }

    /// Returns the memory of value `first` and of all following values to the kernel, except for a
    /// partial page at the start. All of these values must be zero already, so that a concurrent reader
    /// sees no change.
    pub(crate) fn discard_from(&self, first: usize) {
        self.region.discard_from(first * size_of::<T>());
    }
}

#[cfg(not(shuttle))]
impl<T: Zeroed> std::ops::Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the region has space for at least `len` values, is aligned to pages, and exists as
        // long as `self`. It was zeroed, and zero is a valid `T`. No exclusive references to the
        // values exist.
        unsafe { std::slice::from_raw_parts(self.values.as_ptr(), self.len) }
    }
}

/// The array under the model checker. The checker's atomics cannot be created as zeroed memory.
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
