//! A plain reproducer in C. It declares what it calls: no header is needed, and none renames a function.

use std::fmt::Write;

use cuda_pitfalls_calls::{self as calls, Call, CallLibrary, Returns};

use super::super::c::{
    CallText, called, comment, compile_line, declared, enumerators, kernels, literal, prototypes, step, variable,
    wrapped,
};
use super::super::program::{Action, Doing};
use super::Plain;

/// What NVML says of memory. It makes no context.
const MEMORY: &str = r#"
static void print_memory(const char *when)
{
    unsigned int count = 0;
    nvmlInit_v2();
    nvmlDeviceGetCount_v2(&count);
    for (unsigned int gpu = 0; gpu < count; gpu++) {
        nvmlDevice_t device = 0;
        unsigned long long bytes[3] = {0}; /* nvmlMemory_t: total, free, used */
        if (nvmlDeviceGetHandleByIndex_v2(gpu, &device) == 0 && nvmlDeviceGetMemoryInfo(device, (void *)bytes) == 0)
            printf("    %s: GPU %u has %llu MiB in use\n", when, gpu, bytes[2] >> 20);
    }
}
"#;
const MEMORY_CALLS: [&str; 4] =
    ["nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetMemoryInfo"];
const CHECK: &str = r#"
static int check(const char *call, int status)
{
    printf("%s = %d\n", call, status);
    return status == 0;
}
#define CALL(...) check(#__VA_ARGS__, (int)(__VA_ARGS__))
"#;
const VALUE: &str = r#"
static void value(const char *name, long long number)
{
    printf("    %s = %lld\n", name, number);
}
"#;
const VALUE_TEXT: &str = r#"
static void value_text(const char *name, const char *text)
{
    printf("    %s = %s\n", name, text);
}
"#;

pub(super) fn file(plain: &Plain<'_>) -> String {
    let body = body(plain);
    let mut out = header(plain);
    out.push_str(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
         #include <string.h>\n#include <sys/resource.h>\n#include <unistd.h>\n\nstruct opaque;\n",
    );
    let mut functions: Vec<&Call> = plain.sequence.steps.iter().filter_map(Action::call).collect();
    if plain.is_about_memory() {
        functions.extend(MEMORY_CALLS.iter().filter_map(|name| calls::find(name)));
    }
    functions.retain(|call| call.library != CallLibrary::Libc);
    functions.sort_by_key(|call| (call.library, call.name));
    functions.dedup_by_key(|call| call.name);
    prototypes(&functions, &mut out);
    enumerators(plain.program, &mut out);
    for (helper, use_of_it) in [(CHECK, "CALL("), (VALUE, " value("), (VALUE_TEXT, " value_text(")] {
        if body.contains(use_of_it) {
            out.push_str(helper);
        }
    }
    if plain.is_about_memory() {
        out.push_str(MEMORY);
    }
    kernels(plain.program, &mut out);
    out.push_str(&body);
    out
}

fn header(plain: &Plain<'_>) -> String {
    let stem = plain.program.stem_or("plain");
    let run = [compile_line(plain.program, &format!("{stem}.c"), stem), plain.start(&format!("./{stem}"))];
    let lines =
        plain.header(&run).into_iter().flat_map(|line| if line.is_empty() { vec![line] } else { wrapped(&line) });
    let lines: String = lines.map(|line| format!(" * {}", comment(&line)).trim_end().to_string() + "\n").collect();
    format!("/*\n{lines} */\n")
}

fn body(plain: &Plain<'_>) -> String {
    let mut out = String::from("\nint main(void)\n{\n    setvbuf(stdout, NULL, _IONBF, 0);\n");
    for held in &plain.sequence.variables {
        let _ = writeln!(out, "    static {};", declared(&held.c_type, &variable(&held.name)));
    }
    if plain.is_about_memory() {
        out.push_str("    print_memory(\"before\");\n");
    }
    for action in &plain.sequence.steps {
        let called = action.call().map_or(action.step.call.as_str(), |call| call.name);
        if action.step.label != called {
            let _ = writeln!(out, "    /* {} */", comment(&action.step.label));
        }
        let lines = lines(plain, action);
        // What a step declares is its own.
        let (pad, is_block) = if lines.len() > 1 { ("        ", true) } else { ("    ", false) };
        if is_block {
            out.push_str("    {\n");
        }
        for line in lines {
            let _ = writeln!(out, "{pad}{line}");
        }
        if is_block {
            out.push_str("    }\n");
        }
        if plain.prints_memory_after(action) {
            let _ = writeln!(out, "    print_memory({});", literal(&format!("after {}", action.step.label)));
        }
    }
    let _ = write!(out, "    puts({});\n    return 0;\n}}\n", literal(&format!("Look for: {}.", plain.sought)));
    out
}

fn lines(plain: &Plain<'_>, action: &Action<'_>) -> Vec<String> {
    match &action.doing {
        Doing::Call { call, arguments } => checked(call, called(plain.sequence, action, call, arguments)),
        Doing::Mark => Vec::new(),
        Doing::Open { file } => vec![format!("CALL(dlopen({}, RTLD_NOW) == NULL);", literal(file))],
        _ => step(plain.sequence, action),
    }
}

/// The call with its status printed, and below it what it wrote. Handles say nothing to a reader.
fn checked(call: &Call, written: CallText) -> Vec<String> {
    let CallText { before: mut lines, made, told } = written;
    if call.returns == Returns::Text {
        lines.push(format!("value_text({}, {made});", literal(call.name)));
        return lines;
    }
    let told: Vec<String> = told.into_iter().filter(|line| !line.starts_with("value_bound(")).collect();
    if told.is_empty() {
        lines.push(format!("CALL({made});"));
    } else {
        lines.push(format!("if (CALL({made})) {{"));
        lines.extend(told.iter().map(|line| format!("    {line}")));
        lines.push("}".to_string());
    }
    lines
}
