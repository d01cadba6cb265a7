// `xlac_cuda/templates/conditions.ptx`, which only a GPU's driver takes, for the stand-in.
extern "C" void standin_set_condition(uint64_t handle, unsigned value);

extern "C" __global__ void __launch_bounds__(1) decide_loop(const uint8_t *flag, uint64_t handle)
{
    standin_set_condition(handle, *flag != 0);
}

extern "C" __global__ void __launch_bounds__(1) decide_branch(const int32_t *index, uint64_t handle, uint64_t count)
{
    const uint32_t number = *index, last = count - 1;
    standin_set_condition(handle, number < last ? number : last);
}
