//! Learns on the device, from scratch: which of the eight rows of an image is lit. Nothing is allocated.
//!
//! After `xlac build ../../specs/digits_train.yaml --dim batch=16 --target cpu --emit rs,o -o digits_train`:
//!
//!     rustc --edition 2024 train.rs -C link-arg=digits_train/digits_train.o

#[path = "digits_train/digits_train.rs"]
mod digits_train;

use digits_train as model;

const STEPS: u32 = 200;

#[repr(align(64))]
struct Memory([u8; model::MEMORY_BYTES]);

struct Batch {
    image: [f32; model::IMAGE_COUNT],
    label: [i32; model::LABEL_COUNT],
    seed: u32,
}

impl Batch {
    fn noise(&mut self) -> f32 {
        self.seed = self.seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.seed >> 8) as f32 / 16_777_216.0
    }

    fn draw(&mut self) {
        for n in 0..model::LABEL_COUNT {
            self.label[n] = (self.noise() * 8.0) as i32 % 8;
            for i in 0..64 {
                let lit = if i as i32 / 8 == self.label[n] { 0.5 } else { 0.0 };
                self.image[n * 64 + i] = 0.5 * self.noise() + lit;
            }
        }
    }
}

/// Ends the program with what a status means, unless it is OK.
fn check(status: i32) {
    if status != model::OK {
        let text = unsafe { core::ffi::CStr::from_ptr(model::status_text(status)) };
        panic!("{}", text.to_string_lossy());
    }
}

fn main() {
    let mut memory = Memory([0; model::MEMORY_BYTES]);
    let mut context = model::Context::new();
    let mut batch = Batch { image: [0.0; model::IMAGE_COUNT], label: [0; model::LABEL_COUNT], seed: 1 };
    let (mut loss, mut accuracy) = (0.0, 0.0);
    let mut bias = [0.0f32; model::TENSOR_LOGITS_BIAS_COUNT];
    unsafe {
        check(model::init(&mut context, memory.0.as_mut_ptr().cast(), model::MEMORY_BYTES));
        check(model::set_length(&mut context, STEPS.into()));
        for step in 0..STEPS {
            batch.draw();
            check(model::step(&mut context, batch.image.as_ptr(), batch.label.as_ptr(), &mut loss, &mut accuracy));
            if step % 50 == 0 {
                println!("step {step}: loss {loss:.3}");
            }
        }
        batch.draw();
        check(model::evaluate(&mut context, batch.image.as_ptr(), batch.label.as_ptr(), &mut loss, &mut accuracy));
        check(model::get(&context, model::TENSOR_LOGITS_BIAS, bias.as_mut_ptr().cast()));
    }
    let right = 100.0 * accuracy;
    println!("then: loss {loss:.3}, {right:.0} % right, and the bias of row 0 is {:.4}", bias[0]);
}
