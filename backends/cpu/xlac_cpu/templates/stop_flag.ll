@never = internal constant [2 x i64] [i64 0, i64 -1], align 8
define hidden i32 @${name}(ptr %block) #0 {
entry:
  %flag = load atomic i32, ptr %block monotonic, align 4
  ret i32 %flag
}
