module @jit_collectives attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=2]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "model", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<8x12xf32>, %arg1: tensor<12x4xf32>) -> (tensor<32x4xf32> {jax.result_info = "result[0]"}, tensor<8x4xf32> {jax.result_info = "result[1]"}, tensor<8x4xf32> {jax.result_info = "result[2]"}, tensor<16x2xf32> {jax.result_info = "result[3]"}, tensor<4x4xf32> {jax.result_info = "result[4]"}, tensor<8x4x4xf32> {jax.result_info = "result[5]"}, tensor<4x4xi1> {jax.result_info = "result[6]"}, tensor<4x4xf32> {jax.result_info = "result[7]"}) {
    %0:8 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{"data"}, {"model"}]>, <@mesh, [{"model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {"model"}]>, <@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{"data"}, {}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>] manual_axes={"data", "model"} (%arg2: tensor<4x6xf32>, %arg3: tensor<6x4xf32>) {
      %1 = stablehlo.dot_general %arg2, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x4xf32>
      %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
        %23 = stablehlo.add %arg4, %arg5 : tensor<f32>
        stablehlo.return %23 : tensor<f32>
      }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %3 = "stablehlo.all_gather"(%2) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x4xf32>) -> tensor<8x4xf32>
      %c = stablehlo.constant dense<2> : tensor<ui32>
      %c_0 = stablehlo.constant dense<2> : tensor<ui32>
      %4 = stablehlo.partition_id : tensor<ui32>
      %5 = stablehlo.divide %4, %c : tensor<ui32>
      %6 = stablehlo.remainder %5, %c_0 : tensor<ui32>
      %7 = stablehlo.convert %6 : (tensor<ui32>) -> tensor<i32>
      %8 = stablehlo.convert %7 : (tensor<i32>) -> tensor<f32>
      %9 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
      %10 = stablehlo.add %3, %9 : tensor<8x4xf32>
      %11 = "stablehlo.collective_permute"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 2], [2, 3]]> : tensor<3x2xi64>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %12 = "stablehlo.reduce_scatter"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
      ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
        %23 = stablehlo.add %arg4, %arg5 : tensor<f32>
        stablehlo.return %23 : tensor<f32>
      }) : (tensor<4x4xf32>) -> tensor<4x2xf32>
      %13 = "stablehlo.all_to_all"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, split_count = 2 : i64, split_dimension = 1 : i64}> : (tensor<4x4xf32>) -> tensor<8x2xf32>
      %14 = stablehlo.broadcast_in_dim %2, dims = [0, 2] : (tensor<4x4xf32>) -> tensor<4x1x4xf32>
      %15 = "stablehlo.all_gather"(%14) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 1, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<4x1x4xf32>) -> tensor<4x4x4xf32>
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %16 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
      %17 = stablehlo.compare GT, %2, %16, FLOAT : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xi1>
      %18 = "stablehlo.all_reduce"(%17) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg4: tensor<i1>, %arg5: tensor<i1>):
        %23 = stablehlo.maximum %arg4, %arg5 : tensor<i1>
        stablehlo.return %23 : tensor<i1>
      }) : (tensor<4x4xi1>) -> tensor<4x4xi1>
      %19 = "stablehlo.all_reduce"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
        %23 = stablehlo.maximum %arg4, %arg5 : tensor<f32>
        stablehlo.return %23 : tensor<f32>
      }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %20 = "stablehlo.all_reduce"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
        %23 = stablehlo.add %arg4, %arg5 : tensor<f32>
        stablehlo.return %23 : tensor<f32>
      }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
      %21 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
      %22 = stablehlo.divide %20, %21 : tensor<4x4xf32>
      sdy.return %10, %11, %12, %13, %19, %15, %18, %22 : tensor<8x4xf32>, tensor<4x4xf32>, tensor<4x2xf32>, tensor<8x2xf32>, tensor<4x4xf32>, tensor<4x4x4xf32>, tensor<4x4xi1>, tensor<4x4xf32>
    } : (tensor<8x12xf32>, tensor<12x4xf32>) -> (tensor<32x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<16x2xf32>, tensor<4x4xf32>, tensor<8x4x4xf32>, tensor<4x4xi1>, tensor<4x4xf32>)
    return %0#0, %0#1, %0#2, %0#3, %0#4, %0#5, %0#6, %0#7 : tensor<32x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<16x2xf32>, tensor<4x4xf32>, tensor<8x4x4xf32>, tensor<4x4xi1>, tensor<4x4xf32>
  }
}
