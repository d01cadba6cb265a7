; xlac ${header}
target triple = "${triple}"
; The function that Python calls with NumPy arrays; all programs share it. In C it would be:
;
;   PyObject *call(PyObject *self, PyObject **args, Py_ssize_t given, PyObject *names) {
;     plan = PyCapsule_GetPointer(self, "xlac.plan");
;     if (*plan->limits) goto other;
;     if (names) { given + len(names) must be plan->inputs, and names[k] the name of input given + k }
;     else       { given must be plan->inputs }
;     for (z < plan->sizes)   chosen[z] = io[arrays + z] = a size of this call, from an axis of an input
;     if (plan->sizes)        plan->extents(chosen, plan->shapes);
;     for (i < plan->inputs)  { args[i] must be exactly the dense array of specs[i];  io[i] = its data }
;     for (o < plan->outputs) { made[o] = PyArray_NewFromDescr(...);  io[inputs + o] = its data }
;     arena = plan->arena_bytes ? a free one from the list plan->arenas, or a new one : null
;     plan->run(io, plan->fixed, arena, plan->pool);      // without the GIL if plan->release
;     put the arena back on the list plan->arenas
;     return outputs == 1 ? made[0] : a tuple of made;
;   other:                                                // any condition above that does not hold
;     return plan->otherwise;                             // NotImplemented
;   }
;
; `into` takes the outputs as arguments too, after the inputs: they must be exactly the dense, writable arrays of
; their specs, and share no memory with the inputs and with each other. It allocates no outputs and returns the capsule.
;
; The plan holds what differs between programs, as 64-bit words that run/fastcall.py fills. Byte offsets of its fields
; are named plan_..., spec_... and source_... here; those of the stop block (stop_block.py) are named stop_...
; Conventions: %x.at is the address of %x. A field is read with `getelementptr` (base address, byte offset) and `load`.
; A loop's counter is a `phi`.
;
; Assumptions about CPython and NumPy: the functions declared below are public, with these parameters; and the byte
; offsets of an array's fields (array_type, array_data and so on) are checked by run/numpy_layout.py before this code
; is used. A new assumption about the layout needs a check there.

@capsule = private constant [10 x i8] c"xlac.plan\00"

; of CPython
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i32 @PyUnicode_Compare(ptr, ptr)
declare ptr @PyErr_NoMemory()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
; of the C library
declare i32 @posix_memalign(ptr, i64, i64)
declare i64 @pthread_self()

; METH_FASTCALL | METH_KEYWORDS: `args` has the positional arguments, then the values of the keyword arguments whose
; names are in the tuple `names` (or null). All are borrowed references; the result is a new reference.
define ptr @call(ptr %self, ptr %args, i64 %given, ptr %names) #0 {
  %result = call ptr @both(ptr %self, ptr %args, i64 %given, ptr %names, i1 false)
  ret ptr %result
}

; METH_FASTCALL: inputs, then outputs, all positional.
define ptr @into(ptr %self, ptr %args, i64 %given) #0 {
  %result = call ptr @both(ptr %self, ptr %args, i64 %given, ptr null, i1 true)
  ret ptr %result
}

define internal ptr @both(ptr %self, ptr %args, i64 %given, ptr %names, i1 %into) #0 {
entry:
  %plan = call ptr @PyCapsule_GetPointer(ptr %self, ptr @capsule)
  ; the numbers of inputs and outputs, the type object of ndarray, a spec for each array
  %inputs.at = getelementptr i8, ptr %plan, i64 ${plan_inputs}
  %inputs = load i64, ptr %inputs.at
  %outputs.at = getelementptr i8, ptr %plan, i64 ${plan_outputs}
  %outputs = load i64, ptr %outputs.at
  %type.at = getelementptr i8, ptr %plan, i64 ${plan_type}
  %type = load ptr, ptr %type.at
  %specs.at = getelementptr i8, ptr %plan, i64 ${plan_specs}
  %specs = load ptr, ptr %specs.at
  ; the arena's size in bytes; the number of dynamic sizes
  %arena.bytes.at = getelementptr i8, ptr %plan, i64 ${plan_arena_bytes}
  %arena.bytes = load i64, ptr %arena.bytes.at
  %sizes.at = getelementptr i8, ptr %plan, i64 ${plan_sizes}
  %sizes = load i64, ptr %sizes.at
  %arrays = add i64 %inputs, %outputs
  %words = add i64 %arrays, %sizes
  %words.all = add i64 %words, 1
  ; the number of arrays to check: `into` gets the outputs as arguments too
  %checked = select i1 %into, i64 %arrays, i64 %inputs
  ; io: the addresses of inputs and outputs, the dynamic sizes of this call, and the address of %stop
  %io = alloca ptr, i64 %words.all
  ; the allocated outputs, as owned references
  %made = alloca ptr, i64 %outputs
  ; the size of each argument's array in bytes
  %bytes = alloca i64, i64 %arrays
  ; posix_memalign's result
  %fresh = alloca ptr
  ; the stop block, which programs that may run long check (stop_block.py)
  %stop = alloca [${stop_bytes} x i8], align 8
  ; the number of active time-outs in this process: while there is one, calls take the slower path through ctypes, which
  ; supports them
  %limits.at = getelementptr i8, ptr %plan, i64 ${plan_limits}
  %limits = load ptr, ptr %limits.at
  %limited = load i32, ptr %limits
  %free = icmp eq i32 %limited, 0
  br i1 %free, label %begin, label %other
; are there keyword arguments?
begin:
  %named = icmp ne ptr %names, null
  br i1 %named, label %names.count, label %positional

; keyword arguments must be in the order of the inputs, and complete them; any other order takes the slower path
names.count:
  %name.count = call i64 @PyTuple_Size(ptr %names)
  %total = add i64 %given, %name.count
  %enough = icmp eq i64 %total, %inputs
  br i1 %enough, label %names.next, label %other
; for (k = 0; k < len(names); k++)
names.next:
  %k = phi i64 [ 0, %names.count ], [ %k.next, %names.same ]
  %k.more = icmp slt i64 %k, %name.count
  br i1 %k.more, label %names.test, label %size.any
; names[k] == specs[given + k].name: interned strings, so nearly always the same object
names.test:
  %name = call ptr @PyTuple_GetItem(ptr %names, i64 %k)
  %name.place = add i64 %given, %k
  %name.offset = mul i64 %name.place, ${spec_size}
  %name.at.spec = getelementptr i8, ptr %specs, i64 %name.offset
  %name.at = getelementptr i8, ptr %name.at.spec, i64 ${spec_name}
  %name.wanted = load ptr, ptr %name.at
  %same = icmp eq ptr %name, %name.wanted
  br i1 %same, label %names.same, label %names.compare
; otherwise compare their text
names.compare:
  %order = call i32 @PyUnicode_Compare(ptr %name, ptr %name.wanted)
  %equal = icmp eq i32 %order, 0
  br i1 %equal, label %names.same, label %other
; this name matches
names.same:
  %k.next = add i64 %k, 1
  br label %names.next
; without keyword arguments, all arrays must be positional
positional:
  %exact = icmp eq i64 %given, %checked
  br i1 %exact, label %size.any, label %other

; are there dynamic sizes?
size.any:
  %sources.at = getelementptr i8, ptr %plan, i64 ${plan_sources}
  %sources = load ptr, ptr %sources.at
  %values.at = getelementptr i8, ptr %plan, i64 ${plan_chosen}
  %values = load ptr, ptr %values.at
  %open = icmp ne i64 %sizes, 0
  br i1 %open, label %size, label %input
; for (z = 0; z < sizes; z++)
size:
  %z = phi i64 [ 0, %size.any ], [ %z.next, %size.fits ]
  %z.more = icmp slt i64 %z, %sizes
  br i1 %z.more, label %size.source, label %size.extents
; sources[z]: extent `axis` of input `input` is factor * size + constant; min <= size <= max, size % multiple == 0
size.source:
  %source.offset = mul i64 %z, ${source_size}
  %source = getelementptr i8, ptr %sources, i64 %source.offset
  %source.input.at = getelementptr i8, ptr %source, i64 ${source_input}
  %source.input = load i64, ptr %source.input.at
  %source.axis.at = getelementptr i8, ptr %source, i64 ${source_axis}
  %source.axis = load i64, ptr %source.axis.at
  %source.factor.at = getelementptr i8, ptr %source, i64 ${source_factor}
  %source.factor = load i64, ptr %source.factor.at
  %source.constant.at = getelementptr i8, ptr %source, i64 ${source_constant}
  %source.constant = load i64, ptr %source.constant.at
  %source.min.at = getelementptr i8, ptr %source, i64 ${source_min}
  %source.min = load i64, ptr %source.min.at
  %source.max.at = getelementptr i8, ptr %source, i64 ${source_max}
  %source.max = load i64, ptr %source.max.at
  %source.multiple.at = getelementptr i8, ptr %source, i64 ${source_multiple}
  %source.multiple = load i64, ptr %source.multiple.at
  %telling.at = getelementptr ptr, ptr %args, i64 %source.input
  %telling = load ptr, ptr %telling.at
  %telling.type.at = getelementptr i8, ptr %telling, i64 ${array_type}
  %telling.type = load ptr, ptr %telling.type.at
  %tells = icmp eq ptr %telling.type, %type
  br i1 %tells, label %size.axis, label %other
; the argument is an ndarray; it must have this axis
size.axis:
  %telling.rank.at = getelementptr i8, ptr %telling, i64 ${array_rank}
  %telling.rank.int = load i32, ptr %telling.rank.at
  %telling.rank = sext i32 %telling.rank.int to i64
  %there = icmp slt i64 %source.axis, %telling.rank
  br i1 %there, label %size.value, label %other
; size = (extent - constant) / factor, which must be an integer in its range
size.value:
  %telling.extents.at = getelementptr i8, ptr %telling, i64 ${array_extents}
  %telling.extents = load ptr, ptr %telling.extents.at
  %extent.at = getelementptr i64, ptr %telling.extents, i64 %source.axis
  %extent.here = load i64, ptr %extent.at
  %extent.moved = sub i64 %extent.here, %source.constant
  %value = sdiv i64 %extent.moved, %source.factor
  %back = mul i64 %value, %source.factor
  %whole = icmp eq i64 %back, %extent.moved
  %above = icmp sge i64 %value, %source.min
  %below = icmp sle i64 %value, %source.max
  %over = srem i64 %value, %source.multiple
  %even = icmp eq i64 %over, 0
  %value.1 = and i1 %whole, %above
  %value.2 = and i1 %value.1, %below
  %value.3 = and i1 %value.2, %even
  br i1 %value.3, label %size.fits, label %other
; chosen[z] = io[inputs + outputs + z] = size
size.fits:
  %value.at = getelementptr i64, ptr %values, i64 %z
  store i64 %value, ptr %value.at
  %word = add i64 %arrays, %z
  %word.at = getelementptr i64, ptr %io, i64 %word
  store i64 %value, ptr %word.at
  %z.next = add i64 %z, 1
  br label %size
; the program computes the extents of all arrays for these sizes and writes them to where the specs point. Concurrent
; calls share that memory, but the GIL is held from here to its last use
size.extents:
  %write.extents.at = getelementptr i8, ptr %plan, i64 ${plan_extents}
  %write.extents = load ptr, ptr %write.extents.at
  %shapes.at = getelementptr i8, ptr %plan, i64 ${plan_shapes}
  %shapes = load ptr, ptr %shapes.at
  call void %write.extents(ptr %values, ptr %shapes)
  br label %input

; for (i = 0; i < checked; i++)
input:
  %i = phi i64 [ 0, %size.any ], [ 0, %size.extents ], [ %i.next, %input.fits ]
  %i.more = icmp slt i64 %i, %checked
  br i1 %i.more, label %input.type, label %input.done
; the type must be ndarray itself (ob_type is compared): a subclass may interpret its memory differently
input.type:
  %array.at = getelementptr ptr, ptr %args, i64 %i
  %array = load ptr, ptr %array.at
  %array.type.at = getelementptr i8, ptr %array, i64 ${array_type}
  %array.type = load ptr, ptr %array.type.at
  %is.array = icmp eq ptr %array.type, %type
  br i1 %is.array, label %input.facts, label %other
; the array must have the dtype object (NumPy has one for each type in native byte order), rank and extents of specs[i],
; and flags that say that it is dense and aligned
input.facts:
  %offset = mul i64 %i, ${spec_size}
  %spec = getelementptr i8, ptr %specs, i64 %offset
  %data.at = getelementptr i8, ptr %array, i64 ${array_data}
  %rank.at = getelementptr i8, ptr %array, i64 ${array_rank}
  %extents.at = getelementptr i8, ptr %array, i64 ${array_extents}
  %descr.at = getelementptr i8, ptr %array, i64 ${array_descr}
  %flags.at = getelementptr i8, ptr %array, i64 ${array_flags}
  %data = load ptr, ptr %data.at
  %rank = load i32, ptr %rank.at
  %extents = load ptr, ptr %extents.at
  %descr = load ptr, ptr %descr.at
  %flags = load i32, ptr %flags.at
  %spec.descr = load ptr, ptr %spec
  %spec.rank.at = getelementptr i8, ptr %spec, i64 ${spec_rank}
  %spec.rank = load i64, ptr %spec.rank.at
  %spec.extents.at = getelementptr i8, ptr %spec, i64 ${spec_extents}
  %spec.extents = load ptr, ptr %spec.extents.at
  %is.output = icmp sge i64 %i, %inputs
  ; C-contiguous and aligned; outputs also writable
  %flags.wanted = select i1 %is.output, i32 ${array_writable}, i32 ${array_dense}
  %fitting = and i32 %flags, %flags.wanted
  %dense = icmp eq i32 %fitting, %flags.wanted
  %itemsize.at = getelementptr i8, ptr %spec, i64 ${spec_itemsize}
  %itemsize = load i64, ptr %itemsize.at
  %same.descr = icmp eq ptr %descr, %spec.descr
  %wide.rank = sext i32 %rank to i64
  %same.rank = icmp eq i64 %wide.rank, %spec.rank
  %fine.1 = and i1 %dense, %same.descr
  %fine.2 = and i1 %fine.1, %same.rank
  br i1 %fine.2, label %extent, label %other
; for (d = 0; d < rank; d++)
extent:
  %d = phi i64 [ 0, %input.facts ], [ %d.next, %extent.test ]
  %size.so.far = phi i64 [ %itemsize, %input.facts ], [ %size.next, %extent.test ]
  %d.more = icmp slt i64 %d, %spec.rank
  br i1 %d.more, label %extent.test, label %array.fits
; extents must be equal
extent.test:
  %d.next = add i64 %d, 1
  %have.at = getelementptr i64, ptr %extents, i64 %d
  %want.at = getelementptr i64, ptr %spec.extents, i64 %d
  %have = load i64, ptr %have.at
  %want = load i64, ptr %want.at
  %size.next = mul i64 %size.so.far, %have
  %same.extent = icmp eq i64 %have, %want
  br i1 %same.extent, label %extent, label %other
; an output must not share memory with any array before it
array.fits:
  %first = ptrtoint ptr %data to i64
  %past = add i64 %first, %size.so.far
  br i1 %is.output, label %apart, label %input.fits
; for (q = 0; q < i; q++)
apart:
  %q = phi i64 [ 0, %array.fits ], [ %q.next, %apart.test ]
  %q.more = icmp slt i64 %q, %i
  br i1 %q.more, label %apart.test, label %input.fits
; they overlap if io[q] < data + bytes and data < io[q] + bytes[q]
apart.test:
  %q.next = add i64 %q, 1
  %q.io.at = getelementptr i64, ptr %io, i64 %q
  %q.first = load i64, ptr %q.io.at
  %q.bytes.at = getelementptr i64, ptr %bytes, i64 %q
  %q.bytes = load i64, ptr %q.bytes.at
  %q.past = add i64 %q.first, %q.bytes
  %q.under = icmp ult i64 %q.first, %past
  %q.over = icmp ult i64 %first, %q.past
  %q.shared = and i1 %q.under, %q.over
  br i1 %q.shared, label %other, label %apart
; io[i] = data, bytes[i] = its size
input.fits:
  %bytes.at = getelementptr i64, ptr %bytes, i64 %i
  store i64 %size.so.far, ptr %bytes.at
  %io.at = getelementptr ptr, ptr %io, i64 %i
  store ptr %data, ptr %io.at
  %i.next = add i64 %i, 1
  br label %input

; are the outputs arguments?
input.done:
  br i1 %into, label %memory, label %output
; for (o = 0; o < outputs; o++)
output:
  %o = phi i64 [ 0, %input.done ], [ %o.next, %output.made ]
  %o.more = icmp slt i64 %o, %outputs
  br i1 %o.more, label %output.make, label %memory
; PyArray_NewFromDescr(type, descr, rank, extents, strides: null, data: null, flags: 0, object: null)
output.make:
  %o.place = add i64 %inputs, %o
  %o.offset = mul i64 %o.place, ${spec_size}
  %o.spec = getelementptr i8, ptr %specs, i64 %o.offset
  %o.descr = load ptr, ptr %o.spec
  %o.rank.at = getelementptr i8, ptr %o.spec, i64 ${spec_rank}
  %o.rank = load i64, ptr %o.rank.at
  %o.rank.int = trunc i64 %o.rank to i32
  %o.extents.at = getelementptr i8, ptr %o.spec, i64 ${spec_extents}
  %o.extents = load ptr, ptr %o.extents.at
  %allocate.at = getelementptr i8, ptr %plan, i64 ${plan_allocate}
  %allocate = load ptr, ptr %allocate.at
  call void @Py_IncRef(ptr %o.descr) ; the new array steals this reference
  %new = call ptr %allocate(ptr %type, ptr %o.descr, i32 %o.rank.int, ptr %o.extents, ptr null, ptr null, i32 0, ptr null)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %undo, label %output.made
; made[o] = the array; io[inputs + o] = its data
output.made:
  %made.at = getelementptr ptr, ptr %made, i64 %o
  store ptr %new, ptr %made.at
  %new.data.at = getelementptr i8, ptr %new, i64 ${array_data}
  %new.data = load ptr, ptr %new.data.at
  %o.io.at = getelementptr ptr, ptr %io, i64 %o.place
  store ptr %new.data, ptr %o.io.at
  %o.next = add i64 %o, 1
  br label %output

; memory for temporaries: free arenas are a linked list, whose links are the arenas' first words; the GIL guards it
memory:
  %needs = icmp ne i64 %arena.bytes, 0
  br i1 %needs, label %arena.take, label %ready
; plan->arenas: the first one, or null
arena.take:
  %head.at = getelementptr i8, ptr %plan, i64 ${plan_arenas}
  %head = load ptr, ptr %head.at
  %some = icmp ne ptr %head, null
  br i1 %some, label %arena.pop, label %arena.make
; take it off the list
arena.pop:
  %following = load ptr, ptr %head
  store ptr %following, ptr %head.at
  br label %ready
; no arena is free: this is the first call, or all are used by concurrent calls
arena.make:
  %error = call i32 @posix_memalign(ptr %fresh, i64 64, i64 %arena.bytes)
  %new.arena = load ptr, ptr %fresh
  %got = icmp eq i32 %error, 0
  br i1 %got, label %ready, label %no.memory
; raise MemoryError
no.memory:
  %raised = call ptr @PyErr_NoMemory()
  br label %undo

; three ways to run the program: watched (it may be stopped; without the GIL), free (without the GIL), held (with it)
ready:
  %arena = phi ptr [ null, %memory ], [ %head, %arena.pop ], [ %new.arena, %arena.make ]
  %run.at = getelementptr i8, ptr %plan, i64 ${plan_run}
  %run = load ptr, ptr %run.at
  %fixed.at = getelementptr i8, ptr %plan, i64 ${plan_fixed}
  %fixed = load ptr, ptr %fixed.at
  %pool.at = getelementptr i8, ptr %plan, i64 ${plan_pool}
  %pool = load ptr, ptr %pool.at
  %release.at = getelementptr i8, ptr %plan, i64 ${plan_release}
  %release = load i64, ptr %release.at
  %long = icmp ne i64 %release, 0
  %host.at = getelementptr i8, ptr %plan, i64 ${plan_host}
  %host = load ptr, ptr %host.at
  %watched = icmp ne ptr %host, null
  br i1 %watched, label %run.watched, label %run.any
; io's last word = &stop. The stop block is zero except for: no deadline, the calling thread, and the table of Python
; functions through which the program checks for signals (stop_function.py)
run.watched:
  %last.at = getelementptr ptr, ptr %io, i64 %words
  store ptr %stop, ptr %last.at
  call void @llvm.memset.p0.i64(ptr align 8 %stop, i8 0, i64 ${stop_bytes}, i1 false)
  %deadline.at = getelementptr i8, ptr %stop, i64 ${stop_deadline}
  store i64 9223372036854775807, ptr %deadline.at
  %owner.at = getelementptr i8, ptr %stop, i64 ${stop_owner}
  %owner = call i64 @pthread_self()
  store i64 %owner, ptr %owner.at
  %stop.host.at = getelementptr i8, ptr %stop, i64 ${stop_host}
  store ptr %host, ptr %stop.host.at
  %watched.thread = call ptr @PyEval_SaveThread()
  %ended = call i32 %run(ptr %io, ptr %fixed, ptr %arena, ptr %pool)
  call void @PyEval_RestoreThread(ptr %watched.thread)
  %flag = load i32, ptr %stop
  %stopped = icmp ne i32 %flag, 0
  br i1 %stopped, label %run.stopped, label %give.back
; a signal handler raised an exception during such a check, which stored it in the stop block: raise it here
run.stopped:
  %type.kept.at = getelementptr i8, ptr %stop, i64 ${stop_type}
  %value.kept.at = getelementptr i8, ptr %stop, i64 ${stop_value}
  %trace.kept.at = getelementptr i8, ptr %stop, i64 ${stop_trace}
  %type.kept = load ptr, ptr %type.kept.at
  %value.kept = load ptr, ptr %value.kept.at
  %trace.kept = load ptr, ptr %trace.kept.at
  call void @PyErr_Restore(ptr %type.kept, ptr %value.kept, ptr %trace.kept)
  br label %give.back
; not watched: release the GIL if the program takes longer than releasing it and taking it again
run.any:
  br i1 %long, label %run.free, label %run.held
; other threads run Python meanwhile
run.free:
  %thread = call ptr @PyEval_SaveThread()
  call void %run(ptr %io, ptr %fixed, ptr %arena, ptr %pool)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %give.back
; a short program keeps the GIL
run.held:
  call void %run(ptr %io, ptr %fixed, ptr %arena, ptr %pool)
  br label %give.back
; %raised.in: is an exception set? Then put the arena back on the list; the GIL is held again
give.back:
  %raised.in = phi i1 [ false, %run.free ], [ false, %run.held ], [ false, %run.watched ], [ true, %run.stopped ]
  br i1 %needs, label %arena.push, label %results
; push it at the list's head
arena.push:
  %list = getelementptr i8, ptr %plan, i64 ${plan_arenas}
  %top = load ptr, ptr %list
  store ptr %top, ptr %arena
  store ptr %arena, ptr %list
  br label %results

; an exception, or outputs?
results:
  br i1 %raised.in, label %undo, label %give.any
; `into` returns the capsule
give.any:
  br i1 %into, label %given.back, label %give
; the caller owns this reference to it
given.back:
  call void @Py_IncRef(ptr %self)
  ret ptr %self
; a single output is returned without a tuple
give:
  %single = icmp eq i64 %outputs, 1
  br i1 %single, label %one, label %several
; the caller owns the reference
one:
  %only = load ptr, ptr %made
  ret ptr %only
; several are returned as a tuple
several:
  %tuple = call ptr @PyTuple_New(i64 %outputs)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %undo, label %pack
; for (p = 0; p < outputs; p++)
pack:
  %p = phi i64 [ 0, %several ], [ %p.next, %pack.item ]
  %p.more = icmp slt i64 %p, %outputs
  br i1 %p.more, label %pack.item, label %packed
; PyTuple_SetItem steals the reference; it cannot fail on a new tuple
pack.item:
  %item.at = getelementptr ptr, ptr %made, i64 %p
  %item = load ptr, ptr %item.at
  %set = call i32 @PyTuple_SetItem(ptr %tuple, i64 %p, ptr %item)
  %p.next = add i64 %p, 1
  br label %pack
; the caller owns the tuple
packed:
  ret ptr %tuple

; an exception is set: release the outputs allocated so far, from the last to the first
undo:
  %most = phi i64 [ %o, %output.make ], [ %outputs, %no.memory ], [ %outputs, %several ], [ %outputs, %results ]
  %made.now = select i1 %into, i64 0, i64 %most ; `into` has allocated none
  br label %undo.next
; for (u = made; u > 0; u--)
undo.next:
  %u = phi i64 [ %made.now, %undo ], [ %u.next, %undo.one ]
  %u.more = icmp sgt i64 %u, 0
  br i1 %u.more, label %undo.one, label %undone
; made[u - 1]
undo.one:
  %u.next = sub i64 %u, 1
  %drop.at = getelementptr ptr, ptr %made, i64 %u.next
  %drop = load ptr, ptr %drop.at
  call void @Py_DecRef(ptr %drop)
  br label %undo.next
; null: an exception is set
undone:
  ret ptr null

; the arguments do not match the plan: NotImplemented; the caller then converts them or reports what is wrong
other:
  %otherwise.at = getelementptr i8, ptr %plan, i64 ${plan_otherwise}
  %otherwise = load ptr, ptr %otherwise.at
  call void @Py_IncRef(ptr %otherwise)
  ret ptr %otherwise
}

; Frees the arenas of a plan that can no longer be called: while (plan->arenas) { take the first off the list; free it }
define void @discard(ptr %plan) #0 {
entry:
  %list = getelementptr i8, ptr %plan, i64 ${plan_arenas}
  br label %next
; is there another one?
next:
  %arena = load ptr, ptr %list
  %some = icmp ne ptr %arena, null
  br i1 %some, label %drop, label %done
; its first word is the link to the next
drop:
  %following = load ptr, ptr %arena
  store ptr %following, ptr %list
  call void @free(ptr %arena)
  br label %next
; the list is empty
done:
  ret void
}

; of the C library, and LLVM's own
declare void @free(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

attributes #0 = { nounwind }
