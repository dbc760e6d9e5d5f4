//! What a program of `credential_process` prints, the file with the token of a login, and the reply of the portal of
//! IAM Identity Center.
#![no_main]

use larder_fuzz::assert_valid;
use larder_remote::keys_in_output;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| keys_in_output(data).iter().for_each(assert_valid));
