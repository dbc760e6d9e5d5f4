//! Expected values of the functions in common use today. They were computed by a separate program that
//! shares no code with the functions.
//!
//! A function of 64 bits starts with the key's word, `index + object * OBJECT_STEP`. A function of 32
//! bits starts with the xor of both halves of this word.

use super::{Golden, LARGE, SMALL};

#[rustfmt::skip]
pub(super) const CURRENT: &[Golden] = &[
    // 0xf8bf_838c_08ed_644d * 0x9e37_79b9_7f4a_7c15 = 0x64d6_d8d5_e950_8651, >> 53
    ("golden", SMALL, 11, 0x326),
    // 0x7255_7b15_4aa7_f353 * 0x9e37_79b9_7f4a_7c15 = 0xc308_6125_fca1_29cf, >> 48
    ("golden", LARGE, 16, 0xc308),
    // 0xf052_e7c1 * 0x61c8_8647 = 0x3c15_4c87, >> 21
    ("hash-32", SMALL, 11, 0x1e0),
    // 0x38f2_8846 * 0x61c8_8647 = 0xbb48_6f6a, >> 16
    ("hash-32", LARGE, 16, 0xbb48),
    // 0xf8bf_838c_08ed_644d * 0x61c8_8646_80b5_83eb = 0x9b29_272a_16af_79af, >> 53
    ("hash-64", SMALL, 11, 0x4d9),
    // 0x7255_7b15_4aa7_f353 * 0x61c8_8646_80b5_83eb = 0x3cf7_9eda_035e_d631, >> 48
    ("hash-64", LARGE, 16, 0x3cf7),
    // 0xf052_e7c1, first round 0x3bda_d871, second 0x70fb_e293, last xor 0x70fb_9268
    ("murmur3-32", SMALL, 11, 0x268),
    // 0x38f2_8846, first round 0x619_e33c, second 0x565e_0b4f, last xor 0x565e_5d11
    ("murmur3-32", LARGE, 16, 0x5d11),
    // 0xf8bf_838c_08ed_644d, first round 0x9a27_569a_cbbd_944f
    // second 0xb694_292b_3c9e_45a6, last xor 0xb694_292b_67d4_5133
    ("murmur3-64", SMALL, 11, 0x133),
    // 0x7255_7b15_4aa7_f353, first round 0xc619_0a87_e253_cfc5
    // second 0x5498_003a_1e36_b172, last xor 0x5498_003a_347a_b16f
    ("murmur3-64", LARGE, 16, 0xb16f),
    // 0xf8bf_838c_08ed_644d, first round 0x3863_5300_a5e1_6fc9, last xor 0x3863_5300_9d82_3cc9
    ("xxh3-avalanche", SMALL, 11, 0x4c9),
    // 0x7255_7b15_4aa7_f353, first round 0xcf9c_8225_3b99_d233, last xor 0xcf9c_8225_f405_5016
    ("xxh3-avalanche", LARGE, 16, 0x5016),
    // 0xf8bf_838c_08ed_644d, first round 0xc77_9328_e2e5_a0e4
    // second 0x1207_0a75_6ac0_44cd, last xor 0x1207_0a74_4ab0_e39b
    ("xxh3-rrmxmx", SMALL, 11, 0x39b),
    // 0x7255_7b15_4aa7_f353, first round 0xd98b_1b5d_94d1_26e3
    // second 0xed92_5bfa_5582_7dd0, last xor 0xed92_5bf4_8ca7_c275
    ("xxh3-rrmxmx", LARGE, 16, 0xc275),
    // 0xf052_e7c1, first round 0xce40_93d7, second 0xfd8d_17b2, last xor 0xfd8d_ea3f
    ("lowbias32", SMALL, 11, 0x23f),
    // 0x38f2_8846, first round 0xc27a_53a4, second 0xfc9b_c870, last xor 0xfc9b_34eb
    ("lowbias32", LARGE, 16, 0x34eb),
    // 0xf8bf_838c_08ed_644d, first round 0xe7a1_6a8d_099d_c555
    // second 0x55bc_91f3_39b0_effc, last xor 0x55bc_91f3_92c9_cc1a
    ("splitmix64", SMALL, 11, 0x41a),
    // 0x7255_7b15_4aa7_f353, first round 0x6c55_2a71_3910_c956
    // second 0xe63e_4fbf_5542_d5bb, last xor 0xe63e_4fbe_993e_4ac5
    ("splitmix64", LARGE, 16, 0x4ac5),
    // 0xf8bf_838c_08ed_644d, first round 0xe031_b6a0_4001_1924
    // second 0x325d_afb5_e050_1a04, last xor 0x325d_afb3_abe5_ecb8
    ("moremur", SMALL, 11, 0x4b8),
    // 0x7255_7b15_4aa7_f353, first round 0xa8a_2a2d_52a5_100e
    // second 0xa0f0_4842_4b37_5df8, last xor 0xa0f0_4856_553e_55b1
    ("moremur", LARGE, 16, 0x55b1),
    // bytes of 0xf052_e7c1, lowest first, hash to 0x302b_eac0
    ("table-driven", SMALL, 11, 0x2c0),
    // bytes of 0x38f2_8846, lowest first, hash to 0x3789_eeda
    ("table-driven", LARGE, 16, 0xeeda),
    // bytes of 0xf8bf_838c_08ed_644d, lowest first, hash to 0x60b1_0b9e_cad2_f7c8
    ("table-driven-64", SMALL, 11, 0x7c8),
    // bytes of 0x7255_7b15_4aa7_f353, lowest first, hash to 0xb9c3_cf36_4ae2_7f49
    ("table-driven-64", LARGE, 16, 0x7f49),
    // of 02000000000000000300000000000000: 0x78c0_708e
    ("crc32c", SMALL, 11, 0x8e),
    // of 05000000010000009a78563412000000: 0x371a_0950
    ("crc32c", LARGE, 16, 0x950),
    // bytes of 02000000000000000300000000000000, a table each: 0x617b_67b6
    ("tabulation", SMALL, 11, 0x7b6),
    // bytes of 05000000010000009a78563412000000, a table each: 0xd8e2_137f
    ("tabulation", LARGE, 16, 0x137f),
];
