//! A case, step by step and the same for every language: what is called, and what is asked behind it. Where
//! the languages differ in a form alone, both forms stand side by side; `c` and `python` have what differs more.

use std::collections::BTreeMap;
use std::fmt::Write;

use cuda_pitfalls_calls::{self as calls, Call, CallLibrary, FieldType, InputStruct, Layout, Output, Param, Returns};

use super::effect::{Bytes, EffectQuestion, GpuSet, Growth, Questions, Since, gpu_named, status};
use super::program::{Action, Argument, Doing, Done, Number, Refusal, Reproducer, Sequence, c_type, identifier};
use super::{Language, c, python};
use cuda_pitfalls_core::scenario::Operand;

/// What a step wrote and can be asked about.
pub(super) struct Written {
    pub(super) key: String,
    /// Its value, once the call has succeeded.
    pub(super) value: String,
    pub(super) kind: WrittenKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WrittenKind {
    Number,
    Text,
    Handle,
    /// A number that an expression has and no variable.
    Part,
}

impl Written {
    pub(super) fn new(key: &str, value: impl Into<String>, kind: WrittenKind) -> Written {
        Written { key: key.to_owned(), value: value.into(), kind }
    }
}

/// The text of a case as it is written.
pub(super) struct CaseText<'p> {
    pub(super) language: Language,
    pub(super) program: &'p Reproducer<'p>,
    pub(super) sequence: &'p Sequence<'p>,
    pub(super) text: String,
    pub(super) pad: usize,
    /// Variables of the function that is written, with their C types.
    pub(super) declared: BTreeMap<String, String>,
    /// Where memory stands as it was before the step.
    before: String,
    /// The functions of its threads in C, and what they share with it, with their types.
    pub(super) functions: Vec<String>,
    pub(super) of_file: BTreeMap<String, String>,
}

impl<'p> CaseText<'p> {
    pub(super) fn new(language: Language, program: &'p Reproducer<'p>, sequence: &'p Sequence<'p>) -> CaseText<'p> {
        let (text, before, functions) = Default::default();
        let (declared, of_file) = Default::default();
        CaseText { language, program, sequence, text, pad: 1, declared, before, functions, of_file }
    }

    pub(super) fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{}{line}", "    ".repeat(self.pad));
    }

    pub(super) fn statement(&mut self, statement: &str, said: &str) {
        self.line(&format!("{statement}{}{said}", self.language.pick([";", ""])));
    }

    /// Gives a variable a value. Its name is another one if this one is of another type, or an array.
    pub(super) fn declare(&mut self, c_type: &str, name: &str, array: &str, value: &str, said: &str) -> String {
        let mut own = name.to_string();
        let mut count = 1;
        while self.declared.get(&own).is_some_and(|it| it != c_type || !array.is_empty()) {
            count += 1;
            own = format!("{name}_{count}");
        }
        let is_new = self.declared.insert(own.clone(), c_type.to_string()).is_none();
        let declared =
            if is_new && self.language == Language::C { c::declared(c_type, &own) + array } else { own.clone() };
        self.statement(&format!("{declared} = {value}"), said);
        own
    }

    pub(super) fn steps(&mut self, steps: &[Action<'_>]) -> Done {
        steps.iter().try_for_each(|action| self.step(action))
    }

    fn step(&mut self, action: &Action<'_>) -> Done {
        let (label, program, language) = (action.label, self.program, self.language);
        let questions = program.questions_at(label);
        if questions.iter().any(|it| matches!(it, EffectQuestion::Memory { since: Since::Step, .. })) {
            let readings = language.form(["{$0}", "[$0]"], &[&program.readings()]);
            self.before = self.declare("long long", "before", "[]", &readings, "");
        }
        let said = self.said(action.remark(), &[]);
        match &action.doing {
            Doing::Call { call, arguments } => self.call(action, call, arguments, &questions)?,
            Doing::Line { text, value, may_raise } => self.python_lines(label, text, *value, *may_raise, &questions)?,
            Doing::Getpid => {
                let name = language.variable(&format!("{label}_pid"));
                self.declare("long long", &name, "", language.pick(["getpid()", "os.getpid()"]), &said);
            }
            Doing::Nothing(why) if program.asks_for_value_of(label) => {
                return Err(Refusal(format!("its effect asks for a value of the step `{label}`: {why}")));
            }
            Doing::Nothing(why) => self.line(&language.comment(&format!("{label}: {why}"))),
            Doing::Sleep { milliseconds } => {
                let forms = ["usleep($0 * 1000)", "time.sleep($0 / 1000)"];
                self.statement(&language.form(forms, &[&milliseconds.to_string()]), &said);
            }
            Doing::Memset { variable, value, bytes } => {
                let forms = ["memset((void *)(uintptr_t)$0, $1, $2)", "ctypes.memset($0.value, $1, $2)"];
                let (variable, bytes) = (language.variable(variable), language.size(*bytes));
                self.statement(&language.form(forms, &[&variable, &value.to_string(), &bytes]), &said);
            }
            Doing::Open { file } => {
                let forms = ["CALL(dlopen($0, RTLD_NOW) == NULL)", "call(\"dlopen\", dlopen($0))"];
                self.statement(&language.form(forms, &[&language.literal(file)]), &said);
            }
            Doing::Fork(steps, end) => self.fork(steps, end)?,
            Doing::Thread(steps) => match language {
                Language::C => self.c_thread(steps)?,
                Language::Python => self.python_thread(steps)?,
            },
        }
        self.expect_rest(&questions);
        Ok(())
    }

    fn fork(&mut self, steps: &[Action<'_>], end: &str) -> Done {
        let (program, language) = (self.program, self.language);
        let child = self.declare("pid_t", "child", "", language.pick(["fork()", "os.fork()"]), "");
        self.line(&language.form(["if ($0 == 0) {", "if $0 == 0:"], &[&child]));
        let before = self.declared.clone();
        self.pad += 1;
        self.steps(steps)?;
        let count = program.count_asked(steps);
        let code = if count > 0 { language.pick(["failed != 0", "0 if all(answers) else 1"]) } else { "0" };
        self.statement(&language.form(["_exit($0)", "os._exit($0)"], &[code]), "");
        self.pad -= 1;
        self.declared = before;
        if language == Language::C {
            self.line("}");
        }
        match language {
            Language::C => self.c_wait(&child, count),
            Language::Python => self.python_wait(&child, count),
        }
        self.expect_rest(&program.questions_at(end));
        Ok(())
    }

    fn call(&mut self, action: &Action<'_>, call: &Call, arguments: &[Argument], questions: Questions<'_>) -> Done {
        let (label, language) = (action.label, self.language);
        let (made, written) = self.called(action, call, arguments);
        let names: Vec<&str> = arguments.iter().filter_map(|argument| self.name_of(argument)).collect();
        let said = self.said(action.remark(), &names);
        if call.returns == Returns::Text {
            let text = self.declare("const char *", "text", "", &made, &said);
            let value = language.form(["$0", "($0 or b\"NULL\").decode()"], &[&text]);
            return self.told(&[Written::new(calls::RETURNED_TEXT, value, WrittenKind::Text)], label, questions);
        }
        let status = status_asked(questions);
        if call.library == CallLibrary::Libc
            && status.is_none()
            && let Some(statement) = self.libc(call, arguments, &made)
        {
            self.statement(&statement, &said);
            return Ok(());
        }
        let written: Vec<Written> =
            written.into_iter().filter(|written| self.program.is_wanted(label, &written.key)).collect();
        let is_libc = call.library == CallLibrary::Libc && language == Language::C;
        let status_of = if is_libc { format!("{made} == 0 ? 0 : errno") } else { made };
        let mut result = language.form(["CALL($1)", "call(\"$0\", $1)"], &[call.name, &status_of]);
        let mut behind = said.as_str();
        if status.is_some() {
            result = self.declare("int", "result", "", &result, &said);
            behind = "";
        }
        if !written.is_empty() {
            self.line(&format!("{}{behind}", language.form(["if ($0 == 0)", "if $0 == 0:"], &[&result])));
            self.block(&written, label, questions)?;
        } else if status.is_none() {
            self.statement(&result, &said);
        }
        if let Some((question, names)) = status {
            self.expect(question, &status_condition(language, call.library, &result, names)?);
        }
        Ok(())
    }

    /// The call, behind the declarations of what it writes.
    fn called(&mut self, action: &Action<'_>, call: &Call, arguments: &[Argument]) -> (String, Vec<Written>) {
        let (mut passed, mut written) = (Vec::new(), Vec::new());
        for (param, argument) in call.params.iter().zip(arguments).filter(|(param, _)| !param.c_type.is_empty()) {
            let c_type = c_type(param);
            passed.push(match argument {
                Argument::Rest => continue,
                Argument::Number(Number::Int(0)) if c_type.contains('*') => {
                    self.language.pick(["NULL", "None"]).to_string()
                }
                Argument::Struct { template, given } => self.structure(param, template, given),
                Argument::Out(output) => self.out(action, param, &c_type, *output, &mut written),
                argument => self.argument(param, &c_type, argument),
            });
        }
        let function = self.language.form(["$1", "$0.$1"], &[python::object(call.library), call.name]);
        (format!("{function}({})", passed.join(", ")), written)
    }

    /// What is passed, but for a struct and for what the call writes.
    fn argument(&self, param: &Param, c_type: &str, argument: &Argument) -> String {
        let language = self.language;
        match argument {
            Argument::Number(value) => match language {
                Language::C => c::passed_number(value, param, c_type),
                Language::Python => python::passed_number(value, param, c_type),
            },
            Argument::Text(pieces) => language.pick([c::text, python::encoded])(pieces),
            Argument::Variable(name) if language == Language::C => self.c_bound(name, c_type),
            Argument::Variable(name) => language.variable(name),
            Argument::Handle(0) if !c::WIDE.contains(&c_type) => language.pick(["NULL", "None"]).to_string(),
            Argument::Handle(value) => {
                let c_type = c_type.replace("const ", "");
                language.form(["($1)(uintptr_t)$0", "c_void_p($0)"], &[&value.to_string(), &c_type])
            }
            Argument::Kernel(name) => format!("kernel_{}", identifier(name, &[])),
            Argument::List(values) => {
                let word = ["&(uint64_t){$0}", "$0"];
                let all = values.iter().map(|value| match value {
                    Argument::Variable(name) => language.form(["&$0", "$0"], &[&language.variable(name)]),
                    Argument::Number(value) => language.form(word, &[&language.number(value)]),
                    Argument::Handle(value) => language.form(word, &[&value.to_string()]),
                    _ => language.pick(["NULL", "0"]).to_string(),
                });
                language.form(["(void *[]){$0}", "list_of($0)"], &[&all.collect::<Vec<_>>().join(", ")])
            }
            Argument::Dim3(x, z) => {
                language.form(["(dim3){$0, 1, $1}", "Dim3($0, 1, $1)"], &[&x.to_string(), &z.to_string()])
            }
            Argument::Location { host, device } => {
                let (kind, device) = if *host { ("2", "0".to_string()) } else { ("1", language.number(device)) };
                language.form(["($0){$1, $2}", "Location($1, $2)"], &[c_type, kind, &device])
            }
            Argument::Struct { .. } | Argument::Out(_) | Argument::Rest => String::new(),
        }
    }

    /// The argument for an output of the call.
    fn out(
        &mut self,
        action: &Action<'_>,
        param: &Param,
        c_type: &str,
        output: Output,
        written: &mut Vec<Written>,
    ) -> String {
        let language = self.language;
        // In Python a variable that a call writes is an object that has the value.
        let is_kept = language == Language::C && self.program.is_compared(action.label, param.name);
        let name = if is_kept { format!("{}_{}", action.label, param.name) } else { param.name.to_string() };
        let name = language.variable(&name);
        let (own, count, kind) = match (output, action.bind) {
            (Output::I32, _) => ("int", None, WrittenKind::Number),
            (Output::U32, _) => ("unsigned int", None, WrittenKind::Number),
            (Output::F32, _) => ("float", None, WrittenKind::Number),
            (Output::Varying, _) if c_type == "int *" => ("int", None, WrittenKind::Number),
            (Output::U64 | Output::Varying, _) if c_type == "size_t *" => ("size_t", None, WrittenKind::Number),
            (Output::U64 | Output::Varying, _) | (Output::Word(_), None) => {
                ("unsigned long long", None, WrittenKind::Number)
            }
            (Output::Uuid, _) => ("unsigned char", Some(16), WrittenKind::Text),
            (Output::Text(bytes), _) => ("char", Some(bytes), WrittenKind::Text),
            (Output::Struct(layout), _) => {
                let (name, fields) = self.fields(action.label, &name, layout);
                written.extend(fields);
                return name;
            }
            (Output::Blob(_, bytes), None) => {
                let room = language.form(["{0}", "(c_ubyte * $0)()"], &[&bytes.to_string()]);
                let name = self.declare("unsigned char", &name, &format!("[{bytes}]"), &room, "");
                return language.form(["(void *)$0", "$0"], &[&name]);
            }
            (_, Some(bound)) => {
                let held = self.sequence.variables.iter().find(|held| held.name == bound);
                let own = held.map(|held| held.c_type.as_str()).unwrap_or_default();
                let bound = language.variable(bound);
                if !matches!(output, Output::Blob(..)) {
                    let value = language.form(["$0", "$0.value"], &[&bound]);
                    written.push(Written::new(param.name, value, WrittenKind::Handle));
                }
                return language.pick([c::address, python::address])(&bound, own, c_type);
            }
            (_, None) => ("void *", None, WrittenKind::Handle),
        };
        let array = count.map(|count| format!("[{count}]")).unwrap_or_default();
        let name = self.declare(own, &name, &array, &language.pick([c::room, python::room])(own, count), "");
        let value = match output {
            Output::Uuid => format!("uuid_text({name})"),
            Output::Text(_) => language.form(["$0", "$0.value.decode()"], &[&name]),
            _ => language.form(["$0", "$0.value"], &[&name]),
        };
        written.push(Written::new(param.name, value, kind));
        if count.is_some() { name } else { language.pick([c::address, python::address])(&name, own, c_type) }
    }

    /// What is passed for a struct of which one number is given.
    fn structure(&mut self, param: &Param, template: &InputStruct, given: &Number) -> String {
        let given = self.language.number(given);
        if self.language == Language::Python {
            let preset = template.preset.iter().map(|word| format!("({}, 4, {:#x})", word.offset, word.value));
            let given = format!("({}, {}, {given})", template.given, template.width);
            return format!("room({}, {})", template.size, preset.chain([given]).collect::<Vec<_>>().join(", "));
        }
        let array = format!("[{}]", template.size.div_ceil(8));
        let name = self.declare("uint64_t", &self.language.variable(param.name), &array, "{0}", "");
        let preset = template.preset.iter().map(|word| (word.offset, word.value.to_string(), word.member));
        for (offset, value, member) in preset.chain([(template.given, given, template.member)]) {
            let member = format!(" {}", self.language.comment(member));
            self.statement(&c::word_put(&name, offset, &value), &member);
        }
        name
    }

    /// A struct that the call writes, and its fields.
    fn fields(&mut self, label: &str, name: &str, layout: &Layout) -> (String, Vec<Written>) {
        let language = self.language;
        let name = match language {
            Language::C => self.c_room(label, name, layout),
            Language::Python => self.declare("uint64_t", name, "[]", &python::struct_room(layout), ""),
        };
        let fields = layout.fields.iter().map(|field| {
            let (forms, kind) = match field.read {
                FieldType::I32 if field.offset % 8 == 4 => {
                    (["(int)($0[$1] >> 32)", "word_at($0, $2, 4)"], WrittenKind::Part)
                }
                FieldType::I32 => (["(int)$0[$1]", "word_at($0, $2, 4)"], WrittenKind::Part),
                FieldType::U64 => (["$0[$1]", "word_at($0, $2, 8)"], WrittenKind::Part),
                FieldType::Text(_) => {
                    (["(char *)$0 + $2", "bytes($0)[$2:].split(b\"\\0\")[0].decode()"], WrittenKind::Text)
                }
            };
            let (word, offset) = ((field.offset / 8).to_string(), field.offset.to_string());
            Written::new(field.name, language.form(forms, &[&name, &word, &offset]), kind)
        });
        let fields = fields.collect();
        (name, fields)
    }

    /// What is told of what was written, below a condition.
    fn block(&mut self, written: &[Written], label: &str, questions: Questions<'_>) -> Done {
        let begin = self.text.len();
        self.pad += 1;
        self.told(written, label, questions)?;
        self.pad -= 1;
        if self.language == Language::C {
            self.c_close(begin);
        }
        Ok(())
    }

    /// Prints what was written, and asks what is asked about it.
    fn told(&mut self, written: &[Written], label: &str, questions: Questions<'_>) -> Done {
        for it in written {
            let value = self.tell(label, it, self.program.is_asked_at(label, &it.key));
            self.ask(&it.key, &value, it.kind, questions)?;
        }
        Ok(())
    }

    /// Prints what was written, or leaves that to the question about it in C; the value to ask about.
    fn tell(&mut self, label: &str, Written { key, value, kind }: &Written, is_asked: bool) -> String {
        let (language, is_compared) = (self.language, self.program.is_compared(label, key));
        let mut value = value.clone();
        if is_compared && (language == Language::Python || *kind == WrittenKind::Part) {
            let name = language.variable(&format!("{label}_{key}"));
            value = self.declare("long long", &name, "", &value, "");
        }
        if language == Language::Python {
            self.line(&format!("print(\"    {key} =\", {value})"));
            return value;
        }
        let shown = match kind {
            WrittenKind::Text => format!("SHOW_TEXT({value})"),
            WrittenKind::Number | WrittenKind::Part => format!("SHOW({value})"),
            WrittenKind::Handle => value,
        };
        if !is_asked && (is_compared || *kind == WrittenKind::Text) {
            self.statement(&shown, "");
        }
        shown
    }

    pub(super) fn ask(&mut self, key: &str, value: &str, kind: WrittenKind, questions: Questions<'_>) -> Done {
        for question in questions {
            if let EffectQuestion::Value { name, sign, operand, .. } = question
                && *name == key
            {
                self.expect(question, &condition(self.language, value, kind, sign, operand)?);
            }
        }
        Ok(())
    }

    /// The questions of a step that are about the state of the driver and about memory.
    fn expect_rest(&mut self, questions: Questions<'_>) {
        for question in questions {
            if let Some(condition) = state(self.language, self.program, question, &self.before) {
                self.expect(question, &condition);
            }
        }
    }

    /// A question, in one line or in two.
    pub(super) fn expect(&mut self, question: &EffectQuestion<'_>, condition: &str) {
        let (asks, end) = self.language.pick([("EXPECT", ";"), ("expect", "")]);
        let what = self.language.literal(&question.words());
        let whole = format!("{asks}({condition}, {what}){end}");
        if whole.len() + 4 * self.pad <= 118 {
            self.line(&whole);
        } else {
            self.line(&format!("{asks}({condition},"));
            self.line(&format!("       {what}){end}"));
        }
    }

    /// What stands behind a statement: the step's label, and names of numbers.
    fn said(&self, remark: Option<&str>, names: &[&str]) -> String {
        let names = (!names.is_empty()).then(|| names.join(", "));
        let parts: Vec<String> = remark.map(str::to_owned).into_iter().chain(names).collect();
        if parts.is_empty() {
            return String::new();
        }
        format!("{}{}", self.language.pick([" ", "  "]), self.language.comment(&parts.join(": ")))
    }

    /// The name for which Python has a number alone.
    fn name_of(&self, argument: &Argument) -> Option<&'static str> {
        match argument {
            _ if self.language == Language::C => None,
            Argument::Number(Number::Named(name, _)) => Some(name),
            Argument::Struct { template, .. } => Some(template.name),
            _ => None,
        }
    }

    /// The statement for a call of libc of whose result nothing is asked. The environment of Python is that of C.
    fn libc(&self, call: &Call, arguments: &[Argument], made: &str) -> Option<String> {
        match (call.name, arguments) {
            _ if self.language == Language::C => Some(made.to_string()),
            ("setenv", [Argument::Text(name), Argument::Text(value), ..]) => {
                Some(format!("os.environ[{}] = {}", python::text(name), python::text(value)))
            }
            ("unsetenv", [Argument::Text(name)]) => Some(format!("os.environ.pop({}, None)", python::text(name))),
            _ => None,
        }
    }
}

/// The question about the status of a step, with the names of the status.
pub(super) fn status_asked<'a>(questions: Questions<'a>) -> Option<(&'a EffectQuestion<'a>, &'a [String])> {
    questions.iter().find_map(|it| match it {
        EffectQuestion::Status { names, .. } => Some((*it, *names)),
        _ => None,
    })
}

fn condition(
    language: Language,
    value: &str,
    kind: WrittenKind,
    sign: &str,
    operand: &Operand,
) -> Result<String, Refusal> {
    let other = match operand {
        Operand::Int(other) => other.to_string(),
        Operand::Text(text) if text == "${gpus}" => "gpu_count()".to_string(),
        Operand::Value { label, name } => {
            language.form(["(long long)$0", "$0"], &[&language.variable(&format!("{label}_{name}"))])
        }
        Operand::Text(text) if kind == WrittenKind::Handle && matches!(text.as_str(), "bound" | "NULL") => {
            let is_null = (text == "NULL") == (sign == "==");
            let forms = if is_null { ["$0 == 0", "not $0"] } else { ["$0 != 0", "bool($0)"] };
            return Ok(language.form(forms, &[value]));
        }
        Operand::Text(text) => {
            let other = gpu_named(text).map_or_else(|| language.literal(text), |gpu| format!("uuid_of({gpu})"));
            let is_text = kind == WrittenKind::Text || language == Language::Python;
            if !is_text || !matches!(sign, "==" | "!=") {
                return Err(Refusal(format!("its effect compares a number with `{text}`")));
            }
            return Ok(language.form(["strcmp($0, $2) $1 0", "str($0) $1 $2"], &[value, sign, &other]));
        }
    };
    let number = if kind == WrittenKind::Text { ["atoll($0)", "$0"] } else { ["$0", "$0"] };
    Ok(format!("{} {sign} {other}", language.form(number, &[value])))
}

/// What must hold for a question about the driver's state or memory; none for others. `before` is of before the step.
fn state(language: Language, program: &Reproducer<'_>, question: &EffectQuestion<'_>, before: &str) -> Option<String> {
    Some(match question {
        EffectQuestion::Status { .. } | EffectQuestion::Value { .. } => return None,
        EffectQuestion::Visible { gpus: GpuSet::All, .. } => {
            language.pick(["DEVICES == gpu_count()", "len(visible()) == gpu_count()"]).to_string()
        }
        EffectQuestion::Visible { gpus, .. } => language.pick([c::shows, python::shows])(gpus.named()),
        EffectQuestion::Current { gpu, .. } => {
            language.form(["CURRENT == $0", "current() == $0"], &[&gpu.map_or(-1, i64::from).to_string()])
        }
        EffectQuestion::Initialised { yes, .. } => {
            let forms = ["DEVICES $0 -1", "load(\"libcuda.so.1\").cuDeviceGetCount(byref(c_int())) $0 3"];
            language.form(forms, &[if *yes { "!=" } else { "==" }])
        }
        EffectQuestion::Contexts { .. } | EffectQuestion::Memory { .. } => {
            let growth = question.growth(program.gpus_read()).into_iter();
            let each = growth.map(|growth| grown(language, &growth, before));
            each.collect::<Vec<_>>().join(language.pick([" && ", " and "]))
        }
    })
}

/// What memory of a GPU must have grown by.
fn grown(language: Language, Growth { gpu, since, least, most }: &Growth, before: &str) -> String {
    let since = if *since == Since::Start { "start" } else { before };
    let more = format!("used({gpu}) - {since}[{gpu}]");
    let size = |bound: &Bytes| match bound {
        Bytes::These(bytes) => language.size(*bytes),
        Bytes::Any => "0".to_string(),
        Bytes::Noise => "NOISE".to_string(),
        Bytes::BelowNoise => "-NOISE".to_string(),
        Bytes::AboveNoise => "NOISE + 1".to_string(),
        Bytes::Context => "CONTEXT".to_string(),
        Bytes::BelowContext => "CONTEXT - 1".to_string(),
        Bytes::Allocation => language.pick(["cost * 5 / 4", "cost * 5 // 4"]).to_string(),
    };
    match (least, most) {
        (Bytes::These(least), Bytes::These(most)) if least == most => format!("{more} == {}", language.size(*least)),
        (Bytes::Any, most) => format!("{more} <= {}", size(most)),
        (least, Bytes::Any) => format!("{more} >= {}", size(least)),
        (least, most) => language.form(["$0 >= $1 && $0 <= $2", "$1 <= $0 <= $2"], &[&more, &size(least), &size(most)]),
    }
}

/// Whether the status of a call, in this variable, is one of these.
fn status_condition(
    language: Language,
    library: CallLibrary,
    variable: &str,
    names: &[String],
) -> Result<String, Refusal> {
    let mut all = Vec::new();
    for name in names {
        let (of, code) =
            status(name).ok_or_else(|| Refusal(format!("its effect is the status `{name}`, which has no number")))?;
        // A call of another library returns no status of this one.
        if of == library {
            all.push(format!("{variable} == {code}"));
        }
    }
    let never = language.pick(["0", "False"]).to_string();
    Ok(if all.is_empty() { never } else { all.join(language.pick([" || ", " or "])) })
}
