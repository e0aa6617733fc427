/* SPDX-License-Identifier: GPL-2.0-only */
/* Part of guest.c: the same of a PVH guest, which runs in a virtual machine of the processor's and has no paravirtual CPU. */
#include <public/arch-x86/hvm/start_info.h>
#include <public/hvm/hvm_op.h>
#include <public/hvm/hvm_vcpu.h>
#include <public/hvm/params.h>

#define HYPERCALL "vmmcall" /* AMD's; the lab's processors have its virtual machines */

/* XEN_ELFNOTE_PHYS32_ENTRY */
__asm__(".section .note.xen, \"a\", @note\n"
	".align 4\n.long 4\n.long 4\n.long 18\n.asciz \"Xen\"\n.long _start\n"
	".previous\n");

/* A level of each of the first two, and four of the third: the first 4 GB one to one, in pages of 2 MB. */
static unsigned char tables[6 * 4096] __attribute__((aligned(4096), used));

/* With 32 bits and without paging; what Xen tells is where %ebx says. */
__asm__(".text\n.code32\n.globl _start\n_start:\n"
	"	cld\n"
	"	xor %ecx, %ecx\n"
	"	mov $tables + 8192, %edi\n"
	"	mov $0x83, %eax\n" /* present, writable, 2 MB */
	"1:	mov %eax, (%edi, %ecx, 8)\n"
	"	movl $0, 4(%edi, %ecx, 8)\n"
	"	add $0x200000, %eax\n"
	"	inc %ecx\n"
	"	cmp $2048, %ecx\n"
	"	jb 1b\n"
	"	movl $tables + 4096 + 3, tables\n"
	"	movl $tables + 8192 + 3, tables + 4096\n"
	"	movl $tables + 12288 + 3, tables + 4104\n"
	"	movl $tables + 16384 + 3, tables + 4112\n"
	"	movl $tables + 20480 + 3, tables + 4120\n"
	"	mov $0x20, %eax\n" /* CR4.PAE */
	"	mov %eax, %cr4\n"
	"	mov $tables, %eax\n"
	"	mov %eax, %cr3\n"
	"	mov $0xc0000080, %ecx\n" /* EFER.LME */
	"	mov $0x100, %eax\n"
	"	xor %edx, %edx\n"
	"	wrmsr\n"
	"	mov $0x80000011, %eax\n" /* CR0: PG, ET, PE */
	"	mov %eax, %cr0\n"
	"	lgdt gdt_pointer\n"
	"	ljmp $8, $2f\n"
	".code64\n2:\n"
	"	mov $16, %eax\n"
	"	mov %eax, %ds\n"
	"	mov %eax, %es\n"
	"	mov %eax, %ss\n"
	"	lea stacks + 8192(%rip), %rsp\n"
	"	mov %ebx, %edi\n"
	"	xor %ebp, %ebp\n"
	"	call start\n"
	"1:	jmp 1b\n"
	".align 16\ngdt:	.quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff\n" /* code of 64 bits, data */
	"gdt_pointer:	.word 23\n	.long gdt\n");

static struct vcpu_hvm_context context;

static u64 frame_of(const void *address)
{
	return (u64)address / PAGE_BYTES;
}

static u64 parameter(u32 index)
{
	struct xen_hvm_param p = { .domid = DOMID_SELF, .index = index };

	return hypercall(__HYPERVISOR_hvm_op, HVMOP_get_param, (long)&p, 0) ? 0 : p.value;
}

static const char *begin_machine(void *told)
{
	const struct hvm_start_info *info = told;

	console = (void *)(parameter(HVM_PARAM_CONSOLE_PFN) * PAGE_BYTES);
	console_port = (evtchn_port_t)parameter(HVM_PARAM_CONSOLE_EVTCHN);
	return (const char *)info->cmdline_paddr;
}

static void *context_of(u64 vcpu)
{
	context = (struct vcpu_hvm_context){
		.mode = VCPU_HVM_MODE_64B,
		.cpu_regs.x86_64 = {
			.rip = (u64)start_other,
			.rsp = (u64)stacks[vcpu] + STACK_BYTES - 16,
			.rdi = vcpu,
			.rflags = 2,
			/* As above, and EFER.LMA. */
			.cr0 = 0x80000011,
			.cr3 = (u64)tables,
			.cr4 = 0x20,
			.efer = 0x500,
		},
	};
	return &context;
}
