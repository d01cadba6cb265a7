module @jit_nested attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=2]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "model", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<8x12xf32>) -> (tensor<4x12xf32> {jax.result_info = "result"}) {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"data", ?}, {?}]>] out_shardings=[<@mesh, [{"data", ?}, {?}]>] manual_axes={"data"} (%arg1: tensor<4x12xf32>) {
      %1 = sdy.manual_computation(%arg1) in_shardings=[<@mesh, [{"model", ?}, {?}]>] out_shardings=[<@mesh, [{?}, {?}]>] manual_axes={"model"} (%arg2: tensor<2x12xf32>) {
        %c = stablehlo.constant dense<1> : tensor<ui32>
        %c_0 = stablehlo.constant dense<2> : tensor<ui32>
        %16 = stablehlo.partition_id : tensor<ui32>
        %17 = stablehlo.divide %16, %c : tensor<ui32>
        %18 = stablehlo.remainder %17, %c_0 : tensor<ui32>
        %19 = stablehlo.convert %18 : (tensor<ui32>) -> tensor<i32>
        %c_1 = stablehlo.constant dense<1> : tensor<i32>
        %20 = stablehlo.add %c_1, %19 : tensor<i32>
        %21 = stablehlo.convert %20 : (tensor<i32>) -> tensor<f32>
        %22 = stablehlo.broadcast_in_dim %21, dims = [] : (tensor<f32>) -> tensor<2x12xf32>
        %23 = stablehlo.multiply %arg2, %22 : tensor<2x12xf32>
        %24 = "stablehlo.all_reduce"(%23) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
        ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
          %25 = stablehlo.add %arg3, %arg4 : tensor<f32>
          stablehlo.return %25 : tensor<f32>
        }) : (tensor<2x12xf32>) -> tensor<2x12xf32>
        sdy.return %24 : tensor<2x12xf32>
      } : (tensor<4x12xf32>) -> tensor<2x12xf32>
      %2 = "stablehlo.all_reduce"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
        %16 = stablehlo.add %arg2, %arg3 : tensor<f32>
        %17 = sdy.sharding_constraint %16 <@mesh, []> : tensor<f32>
        stablehlo.return %17 : tensor<f32>
      }) : (tensor<4x12xf32>) -> tensor<4x12xf32>
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %3 = stablehlo.reduce(%2 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x12xf32>, tensor<f32>) -> tensor<f32>
      %4 = sdy.sharding_constraint %3 <@mesh, []> : tensor<f32>
      %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f32>) -> tensor<2x12xf32>
      %6 = sdy.sharding_constraint %5 <@mesh, [{?}, {?}]> : tensor<2x12xf32>
      %7 = stablehlo.multiply %1, %6 : tensor<2x12xf32>
      %8 = sdy.sharding_constraint %7 <@mesh, [{?}, {?}]> : tensor<2x12xf32>
      %9 = sdy.manual_computation() in_shardings=[] out_shardings=[<@mesh, []>] manual_axes={"model"} () {
        %c = stablehlo.constant dense<2> : tensor<ui32>
        %c_0 = stablehlo.constant dense<2> : tensor<ui32>
        %16 = stablehlo.partition_id : tensor<ui32>
        %17 = stablehlo.divide %16, %c : tensor<ui32>
        %18 = stablehlo.remainder %17, %c_0 : tensor<ui32>
        %19 = stablehlo.convert %18 : (tensor<ui32>) -> tensor<i32>
        sdy.return %19 : tensor<i32>
      } : () -> tensor<i32>
      %10 = stablehlo.convert %9 : (tensor<i32>) -> tensor<f32>
      %11 = sdy.sharding_constraint %10 <@mesh, []> : tensor<f32>
      %12 = stablehlo.broadcast_in_dim %11, dims = [] : (tensor<f32>) -> tensor<2x12xf32>
      %13 = sdy.sharding_constraint %12 <@mesh, [{?}, {?}]> : tensor<2x12xf32>
      %14 = stablehlo.add %8, %13 : tensor<2x12xf32>
      %15 = sdy.sharding_constraint %14 <@mesh, [{?}, {?}]> : tensor<2x12xf32>
      sdy.return %15 : tensor<2x12xf32>
    } : (tensor<8x12xf32>) -> tensor<4x12xf32>
    return %0 : tensor<4x12xf32>
  }
}
