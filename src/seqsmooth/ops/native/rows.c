/* Soft-target cross entropy over rows of logits, for the CPU. */

#define EXPORT __attribute__((visibility("default")))

EXPORT int seqsmooth_native_version(void)
{
    return 1;
}
