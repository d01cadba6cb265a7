//! Recognises a handwritten digit: the module that xlac wrote declares the functions, no bindgen is needed.
//!
//! After `xlac build ../../specs/digits.yaml --dim batch=1 --target c --emit c,h,rs -o digits`:
//!
//!     cc -O2 -c digits/digits.c -o digits.o && rustc --edition 2024 main.rs -C link-arg=digits.o -C link-arg=-lm

#[path = "digits/digits.rs"]
mod digits;

#[repr(align(64))]
struct Memory([u8; digits::MEMORY_BYTES]);

#[rustfmt::skip]
const THREE: [u8; digits::IMAGE_COUNT] = [
    0, 0, 6, 14, 16, 16, 2, 0,
    0, 5, 16, 13, 11, 16, 0, 0,
    0, 0, 7, 2, 15, 12, 0, 0,
    0, 0, 0, 7, 16, 13, 1, 0,
    0, 0, 0, 0, 6, 15, 10, 0,
    0, 0, 0, 0, 0, 15, 9, 0,
    0, 0, 3, 11, 8, 16, 6, 0,
    0, 0, 7, 16, 16, 8, 0, 0,
];

fn main() {
    let image = THREE.map(|pixel| f32::from(pixel) / 16.0);
    let mut probs = [0f32; digits::PROBS_COUNT];
    let mut memory = Memory([0; digits::MEMORY_BYTES]);
    let mut context = digits::Context::new();
    let status = unsafe {
        match digits::init(&mut context, memory.0.as_mut_ptr().cast(), digits::MEMORY_BYTES) {
            digits::OK => digits::run(&mut context, image.as_ptr(), probs.as_mut_ptr()),
            refused => refused,
        }
    };
    assert_eq!(status, digits::OK, "status {status}");
    let best = (0..probs.len()).max_by(|&a, &b| probs[a].total_cmp(&probs[b])).unwrap();
    println!("a {best}, with probability {:.3}", probs[best]);
}
