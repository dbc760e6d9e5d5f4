//! Tables of faults for the policies that read around a faulted page.

use larder_readahead::PolicyName;

use crate::toy::ToyFile;

const READ_AROUND: [PolicyName; 2] = [PolicyName::Legacy, PolicyName::OnDemand];

#[test]
fn missing_fault_reads_the_largest_window_around_its_page() {
    for policy in READ_AROUND {
        let mut file = ToyFile::new(policy, 1000, 32);
        assert_eq!(file.fault(500), [(484, 32, 0)], "{policy}");
        assert_eq!(file.fault(515), [], "{policy}");
        assert_eq!(file.fault(516), [(500, 32, 0)], "{policy}");
        assert_eq!(file.fault(3), [(0, 32, 0)], "{policy}");
        assert_eq!(file.fault(999), [(983, 17, 0)], "{policy}");
    }
}

#[test]
fn fault_after_100_more_misses_than_hits_reads_its_page_alone() {
    for policy in READ_AROUND {
        let mut file = ToyFile::new(policy, 100_000, 32);
        for n in 1..=100 {
            assert_eq!(file.fault(n * 100)[0].1, 32, "{policy}, miss {n}");
        }
        assert_eq!(file.fault(50_000), [(50_000, 1, 0)], "{policy}");
        assert_eq!(file.fault(100), [], "{policy}");
        assert_eq!(file.fault(60_000), [(60_000, 1, 0)], "{policy}");
        assert_eq!(file.fault(100), [], "{policy}");
        assert_eq!(file.fault(200), [], "{policy}");
        assert_eq!(file.fault(70_000), [(69_984, 32, 0)], "{policy}");
    }
}

#[test]
fn fault_with_a_limit_of_zero_reads_its_page_alone() {
    for policy in READ_AROUND {
        let mut file = ToyFile::new(policy, 1000, 0);
        assert_eq!(file.fault(500), [(500, 1, 0)], "{policy}");
    }
}

#[test]
fn faults_do_not_change_the_windows_of_a_reader() {
    let mut file = ToyFile::new(PolicyName::Legacy, 1000, 32);
    assert_eq!(file.read(0, 1), [(0, 4, 0)]);
    assert_eq!(file.fault(500), [(484, 32, 0)]);
    assert_eq!(file.read(1, 1), [(4, 8, 0)]);
}
