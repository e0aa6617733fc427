/* SPDX-License-Identifier: GPL-2.0-only */
/* Part of guest.c: how a paravirtual guest begins and starts its other vCPUs. */

#define HYPERCALL "syscall"
#define VIRTUAL_BASE 0xffffffff80000000UL

__asm__(".section .note.xen, \"a\", @note\n"
	".align 4\n.long 4\n.long 2f - 1f\n.long 5\n.asciz \"Xen\"\n1: .asciz \"xen-3.0\"\n2:\n" /* version */
	".align 4\n.long 4\n.long 2f - 1f\n.long 6\n.asciz \"Xen\"\n1: .asciz \"lab\"\n2:\n" /* system */
	".align 4\n.long 4\n.long 2f - 1f\n.long 8\n.asciz \"Xen\"\n1: .asciz \"generic\"\n2:\n" /* loader */
	".align 4\n.long 4\n.long 8\n.long 1\n.asciz \"Xen\"\n.quad _start\n" /* entry */
	".align 4\n.long 4\n.long 8\n.long 3\n.asciz \"Xen\"\n.quad 0xffffffff80000000\n" /* base */
	".align 4\n.long 4\n.long 8\n.long 4\n.asciz \"Xen\"\n.quad 0xffffffff80000000\n" /* offset */
	".previous\n");

__asm__(".text\n.globl _start\n_start:\n"
	"	cld\n"
	"	lea stacks + 8192(%rip), %rsp\n"
	"	mov %rsi, %rdi\n"
	"	xor %ebp, %ebp\n"
	"	call start\n"
	"1:	jmp 1b\n");

static struct start_info *info;
static struct vcpu_guest_context context;

static u64 frame_of(const void *address)
{
	const u64 *frames = (const u64 *)info->mfn_list;

	return frames[((u64)address - VIRTUAL_BASE) / PAGE_BYTES];
}

/* Where Xen has told it what it is asked for; and its console. */
static const char *begin_machine(void *told)
{
	info = told;
	/* The console's page follows the start info page and that of xenstore. */
	console = (void *)((char *)info + 2 * PAGE_BYTES);
	console_port = info->console.domU.evtchn;
	return (const char *)info->cmd_line;
}

static void *context_of(u64 vcpu)
{
	context = (struct vcpu_guest_context){
		.flags = VGCF_in_kernel,
		.user_regs = {
			.rip = (u64)start_other,
			.rsp = (u64)stacks[vcpu] + STACK_BYTES - 16,
			.rdi = vcpu,
			.cs = FLAT_KERNEL_CS,
			.ss = FLAT_KERNEL_SS,
			.rflags = 1 << 9,
		},
		.kernel_ss = FLAT_KERNEL_SS,
		.kernel_sp = (u64)stacks[vcpu] + STACK_BYTES - 16,
		.ctrlreg[3] = xen_pfn_to_cr3(frame_of((void *)info->pt_base)),
	};
	return &context;
}
