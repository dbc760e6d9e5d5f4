//! A table for `off`.

use larder_readahead::PolicyName;

use crate::toy::ToyFile;

#[test]
fn off_reads_the_rest_of_the_request_on_a_miss() {
    let mut file = ToyFile::new(PolicyName::Off, 100, 32);
    assert_eq!(file.read(0, 64), [(0, 64, 0)]);
    assert_eq!(file.read(0, 64), []);
    file.reclaim(60, 1);
    assert_eq!(file.read(0, 64), [(60, 4, 0)]);
    assert_eq!(file.read(90, 64), [(90, 10, 0)]);
    assert_eq!(file.fault(70), [(70, 1, 0)]);
}
