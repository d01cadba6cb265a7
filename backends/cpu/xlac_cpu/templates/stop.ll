@never = internal constant [2 x i64] [i64 0, i64 -1], align 8
define hidden i32 @${name}(ptr %block) #0 {
entry:
  %flag = load atomic i32, ptr %block monotonic, align 4
  %set = icmp ne i32 %flag, 0
  br i1 %set, label %done, label %clock
clock:
  %now = call i64 @llvm.${counter}()
  %next.at = getelementptr i8, ptr %block, i64 ${block_next}
  %next = load atomic i64, ptr %next.at monotonic, align 8
  %due = icmp ugt i64 %now, %next
  br i1 %due, label %question, label %done
question:
  %answer = call i32 @ask(ptr %block, i64 %now)
  ret i32 %answer
done:
  ret i32 %flag
}

; Threads other than the caller's only read the cycle counter. Its rate is measured: the first check only stores the time.
define internal i32 @ask(ptr %block, i64 %now) #0 {
entry:
  %spec = alloca [2 x i64], align 8
  %read = call i32 @clock_gettime(i32 ${clock}, ptr %spec)
  %seconds = load i64, ptr %spec, align 8
  %rest.at = getelementptr i64, ptr %spec, i64 1
  %rest = load i64, ptr %rest.at, align 8
  %whole = mul i64 %seconds, 1000000000
  %time = add i64 %whole, %rest
  %deadline.at = getelementptr i8, ptr %block, i64 ${block_deadline}
  %deadline = load i64, ptr %deadline.at, align 8
  %late = icmp sgt i64 %time, %deadline
  br i1 %late, label %stop, label %outside
outside:
  %outside.at = getelementptr i8, ptr %block, i64 ${block_outside}
  %flag.at = load ptr, ptr %outside.at, align 8
  %some = icmp ne ptr %flag.at, null
  br i1 %some, label %asked, label %whose
asked:
  %wish = load atomic i32, ptr %flag.at monotonic, align 4
  %wished = icmp ne i32 %wish, 0
  br i1 %wished, label %stop, label %whose
whose:
  %owner.at = getelementptr i8, ptr %block, i64 ${block_owner}
  %owner = load i64, ptr %owner.at, align 8
  %self = call i64 @pthread_self()
  %ours = icmp eq i64 %self, %owner
  br i1 %ours, label %rate, label %leave.it
leave.it:
  ret i32 0
rate:
  %counter.at = getelementptr i8, ptr %block, i64 ${block_counter}
  %time.at = getelementptr i8, ptr %block, i64 ${block_time}
  %counter.before = load i64, ptr %counter.at, align 8
  %time.before = load i64, ptr %time.at, align 8
  store i64 %now, ptr %counter.at, align 8
  store i64 %time, ptr %time.at, align 8
  %next.at = getelementptr i8, ptr %block, i64 ${block_next}
  %first = icmp eq i64 %time.before, 0
  br i1 %first, label %note, label %measured
note:
  %soon = add i64 %now, 1000000
  store atomic i64 %soon, ptr %next.at monotonic, align 8
  ret i32 0
measured:
  %ticks = sub i64 %now, %counter.before
  %passed = sub i64 %time, %time.before
  %steady = icmp sgt i64 %passed, 0
  %at.least = select i1 %steady, i64 %passed, i64 1
  %ticks.f = uitofp i64 %ticks to double
  %passed.f = uitofp i64 %at.least to double
  %a.tick = fdiv double %ticks.f, %passed.f
  %wait.f = fmul double %a.tick, ${every}.0
  %sane = fcmp olt double %wait.f, 1.0e15
  %wait.some = select i1 %sane, double %wait.f, double 1.0e15
  %wait = fptoui double %wait.some to i64
  %later = add i64 %now, %wait
  store atomic i64 %later, ptr %next.at monotonic, align 8
  %host.at = getelementptr i8, ptr %block, i64 ${block_host}
  %host = load ptr, ptr %host.at, align 8
  %known = icmp ne ptr %host, null
  br i1 %known, label %main, label %on
main: ; only the main thread runs handlers of signals
  %main.at = getelementptr i8, ptr %host, i64 ${host_main}
  %main.thread = load i64, ptr %main.at, align 8
  %is.main = icmp eq i64 %self, %main.thread
  br i1 %is.main, label %signals, label %on
signals:
  %ensure.at = getelementptr i8, ptr %host, i64 ${host_ensure}
  %check.at = getelementptr i8, ptr %host, i64 ${host_check}
  %release.at = getelementptr i8, ptr %host, i64 ${host_release}
  %fetch.at = getelementptr i8, ptr %host, i64 ${host_fetch}
  %ensure = load ptr, ptr %ensure.at, align 8
  %check = load ptr, ptr %check.at, align 8
  %release = load ptr, ptr %release.at, align 8
  %fetch = load ptr, ptr %fetch.at, align 8
  %lock = call i32 %ensure()
  %raised = call i32 %check()
  %bad = icmp ne i32 %raised, 0
  br i1 %bad, label %keep, label %fine
keep:
  %type.at = getelementptr i8, ptr %block, i64 ${block_type}
  %value.at = getelementptr i8, ptr %block, i64 ${block_value}
  %trace.at = getelementptr i8, ptr %block, i64 ${block_trace}
  call void %fetch(ptr %type.at, ptr %value.at, ptr %trace.at)
  call void %release(i32 %lock)
  br label %stop
fine:
  call void %release(i32 %lock)
  br label %on
on:
  ret i32 0
stop:
  %why = phi i32 [ ${late}, %entry ], [ ${asked}, %asked ], [ ${raised}, %keep ]
  store atomic i32 %why, ptr %block monotonic, align 4
  ret i32 %why
}
