//! Tables recommended for keys whose answer is known.

use larder_cache::tables::Tables;
use larder_cache::tape::CacheKind;
use larder_lab::hash::{KeyKind, Keys};
use larder_lab::tune::tune;

#[test]
fn advice_for_keys_made_up_is_judged_on_the_second_half_and_can_be_mounted() {
    let source = Keys::new(KeyKind::Names, CacheKind::Dentry, 20_000, 1);
    let advice = tune(&source, 16 << 20, 1, &mut |_| {}).unwrap();
    let tables: Tables = advice
        .mount_option
        .strip_prefix("tables=")
        .unwrap()
        .parse()
        .unwrap();
    assert!(tables.to_string().starts_with("larder"), "{tables}");
    let [dentry] = &advice.caches[..] else {
        panic!("{:?}", advice.caches);
    };
    assert_eq!(dentry.cache, CacheKind::Dentry);
    // 4 MiB hold 65536 names: the second half has hits alone.
    assert!(dentry.today.links >= 1.0, "{dentry:?}");
    let over = dentry.today.links / dentry.ideal_links;
    assert!((0.2..5.0).contains(&over), "{dentry:?}");
    assert!(advice.shrinking.unwrap().misses_eager > advice.shrinking.unwrap().misses_normal);
    let files = advice.report().unwrap();
    assert_eq!(files.len(), 5);
    assert_eq!(files[2].content.lines().count(), 2);
}
