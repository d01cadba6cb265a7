module @jit_layer attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=2]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "model", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<8x12xf32>, %arg1: tensor<12x4xf32>, %arg2: tensor<4x12xf32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<12x4xf32> {jax.result_info = "result[1][0]"}, tensor<4x12xf32> {jax.result_info = "result[1][1]"}) {
    %0:5 = sdy.manual_computation(%arg0, %arg1, %arg2) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {"model"}]>, <@mesh, [{"model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data"}, {}]>] manual_axes={"data", "model"} (%arg3: tensor<4x12xf32>, %arg4: tensor<12x2xf32>, %arg5: tensor<2x12xf32>) {
      %9 = stablehlo.dot_general %arg3, %arg4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x12xf32>, tensor<12x2xf32>) -> tensor<4x2xf32>
      %10 = stablehlo.tanh %9 : tensor<4x2xf32>
      %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %11 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
      %12 = stablehlo.subtract %11, %10 : tensor<4x2xf32>
      %13 = stablehlo.dot_general %10, %arg5, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x2xf32>, tensor<2x12xf32>) -> tensor<4x12xf32>
      %14 = "stablehlo.all_reduce"(%13) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg6: tensor<f32>, %arg7: tensor<f32>):
        %15 = stablehlo.add %arg6, %arg7 : tensor<f32>
        stablehlo.return %15 : tensor<f32>
      }) : (tensor<4x12xf32>) -> tensor<4x12xf32>
      sdy.return %arg3, %10, %12, %arg5, %14 : tensor<4x12xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<2x12xf32>, tensor<4x12xf32>
    } : (tensor<8x12xf32>, tensor<12x4xf32>, tensor<4x12xf32>) -> (tensor<16x12xf32>, tensor<16x2xf32>, tensor<16x2xf32>, tensor<8x12xf32>, tensor<8x12xf32>)
    %1 = stablehlo.subtract %0#4, %arg0 : tensor<8x12xf32>
    %2 = stablehlo.multiply %1, %1 : tensor<8x12xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %4 = stablehlo.multiply %3, %1 : tensor<8x12xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.reduce(%2 init: %cst_0) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x12xf32>, tensor<f32>) -> tensor<f32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %7 = stablehlo.multiply %6, %4 : tensor<8x12xf32>
    %8:2 = sdy.manual_computation(%7, %0#0, %0#1, %0#2, %0#3) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>, <@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{}, {"model"}]>, <@mesh, [{"model"}, {}]>] manual_axes={"data", "model"} (%arg3: tensor<4x12xf32>, %arg4: tensor<4x12xf32>, %arg5: tensor<4x2xf32>, %arg6: tensor<4x2xf32>, %arg7: tensor<2x12xf32>) {
      %9 = stablehlo.dot_general %arg3, %arg5, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x12xf32>, tensor<4x2xf32>) -> tensor<12x2xf32>
      %10 = stablehlo.transpose %9, dims = [1, 0] : (tensor<12x2xf32>) -> tensor<2x12xf32>
      %11 = stablehlo.dot_general %arg3, %arg7, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x12xf32>, tensor<2x12xf32>) -> tensor<4x2xf32>
      %12 = "stablehlo.all_reduce"(%10) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg8: tensor<f32>, %arg9: tensor<f32>):
        %19 = stablehlo.add %arg8, %arg9 : tensor<f32>
        stablehlo.return %19 : tensor<f32>
      }) : (tensor<2x12xf32>) -> tensor<2x12xf32>
      %13 = stablehlo.multiply %11, %arg6 : tensor<4x2xf32>
      %14 = stablehlo.multiply %13, %arg5 : tensor<4x2xf32>
      %15 = stablehlo.add %13, %14 : tensor<4x2xf32>
      %16 = stablehlo.dot_general %15, %arg4, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x2xf32>, tensor<4x12xf32>) -> tensor<2x12xf32>
      %17 = stablehlo.transpose %16, dims = [1, 0] : (tensor<2x12xf32>) -> tensor<12x2xf32>
      %18 = "stablehlo.all_reduce"(%17) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg8: tensor<f32>, %arg9: tensor<f32>):
        %19 = stablehlo.add %arg8, %arg9 : tensor<f32>
        stablehlo.return %19 : tensor<f32>
      }) : (tensor<12x2xf32>) -> tensor<12x2xf32>
      sdy.return %18, %12 : tensor<12x2xf32>, tensor<2x12xf32>
    } : (tensor<8x12xf32>, tensor<16x12xf32>, tensor<16x2xf32>, tensor<16x2xf32>, tensor<8x12xf32>) -> (tensor<12x4xf32>, tensor<4x12xf32>)
    return %5, %8#0, %8#1 : tensor<f32>, tensor<12x4xf32>, tensor<4x12xf32>
  }
}
