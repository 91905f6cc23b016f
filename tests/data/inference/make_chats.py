"""Writes chats.json: templates, what they are given, and what PyPI's Jinja2 makes of them, set up as
transformers sets it up.   python make_chats.py OUTPUT.json"""
import datetime
import json
import sys

from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Block, CallBlock
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 3, 7, 9, 5, 2)

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi \u00fc \U0001f642"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello."}, {"role": "user", "content": " 2+2? "}]
TOOLS = [{"type": "function", "function": {"name": "add", "description": "Adds \"a\" and <b>.", "parameters": {
    "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number", "minimum": 1.0}},
    "required": ["a"], "extra": None, "strict": True}}}]

CHATML = """{% for message in messages %}
{% if loop.first and message['role'] != 'system' %}{{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}{% endif %}
{{ '<|im_start|>' + message.role + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- endfor %}
{% if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{% endif %}"""

LLAMA2 = """{%- if messages[0].role == 'system' -%}
  {%- set system = '<<SYS>>\\n' ~ messages[0].content ~ '\\n<</SYS>>\\n\\n' -%}
  {%- set rest = messages[1:] -%}
{%- else -%}
  {%- set system = '' -%}{%- set rest = messages -%}
{%- endif -%}
{%- for m in rest -%}
  {%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception('roles must alternate') }}{%- endif -%}
  {%- if m.role == 'user' -%}{{ bos_token + '[INST] ' + (system if loop.first else '') + m.content | trim + ' [/INST]' }}
  {%- elif m.role == 'assistant' -%}{{ ' ' ~ m.content.strip() ~ ' ' ~ eos_token }}{%- endif -%}
{%- endfor -%}"""

LLAMA3 = """{{- bos_token }}
{%- if not date_string is defined %}{% set date_string = strftime_now("%d %b %Y") %}{%- endif %}
{%- if tools is not none and tools is defined %}
{{- "Environment: ipython\\n" }}{%- for t in tools %}{{- t | tojson(indent=4) }}{{- "\\n\\n" }}{%- endfor %}
{%- endif %}
{{- "Today: " + date_string + "\\n" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}
"""

QWEN3 = """{%- set ns = namespace(multi_step=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step = false %}{%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "assistant" and '</think>' in content %}
        {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- if loop.index0 > ns.last %}{{- '<think>' + thought + '</think>' }}{%- endif %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}"""

SMOLLM3 = """{# a comment #}
{%- macro render(tool, depth=1) -%}
{{ '  ' * 0 }}{{ tool.name }}({% for name, spec in tool.parameters.properties.items() %}{{ name }}: {{ spec['type'] }}{% if not loop.last %}, {% endif %}{% endfor %}) #{{ depth }}
{%- endmacro -%}
{%- if tools -%}
{% for tool in tools %}{{ render(tool.function) }}
{{ render(tool.function, depth=2) }}
{% endfor %}
{%- endif -%}
{%- set systems = messages | selectattr('role', 'equalto', 'system') | map(attribute='content') | list -%}
{{ systems | join('; ') }}
{% for m in messages if m.role != 'system' %}{% generation %}{{ m.role | upper }}{% endgeneration %}:{{ m.content|length }}
{% else %}nobody{% endfor %}"""

SNIPPETS = [
    "{{ 1 + 2 * 3 - 4 // 3 }} {{ 7 % 3 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 1 / 2 }} {{ 2.0 * 3 }} {{ 10 / 5 }}",
    "{{ true and false or not none }} {{ 1 < 2 }} {{ 'a' < 'b' }} {{ 3 in [1, 2, 3] }} {{ 'x' not in 'abc' }}",
    "{{ [1, 'a', none, true, 1.5, {'k': \"it's\"}] }} {{ {'a': [1]} }}",
    "{{ missing }}|{{ missing is defined }}|{{ missing | default('d') }}|{{ '' | default('e', true) }}",
    "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ loop.index }}{% endfor %}",
    "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }}{{ ',' if not loop.last }}{% endfor %}",
    "{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}{% if true %}{% set x = 3 %}{% endif %}{{ x }}",
    "{% set x %}block {{ 1 }}{% endset %}[{{ x }}]",
    "  {% if true %}\n  yes\n  {% endif %}\n  {{ 'a' }}\n  {#- c -#}\n z\n\n",
    "{%+ if true +%}\n x {%- endif %}\n\n",
    "{{ 'a,b,c'.split(',') }} {{ 'a b'.split() }} {{ 'a-b-c'.split('-', 1)[1] }} {{ 'Hello'[1:-1] }} {{ 'Hello'[::-1] }} {{ 'abc'[-1] }}",
    "{{ messages[-1].role }} {{ messages | length }} {{ messages[1:3] | map(attribute='role') | join('+') }}",
    "{{ 'x' is string and 1 is number and [] is iterable and {} is mapping }} {{ 3 is odd }} {{ 4 is divisibleby 2 }} {{ none is none }}",
    "{{ tools | tojson }}", "{{ messages | tojson }}", "{{ {'a': 1.0, 'b': [], 'c': {}} | tojson(indent=2) }}",
    "{{ 'abc' | upper ~ 'DEF' | lower ~ 'gHI' | capitalize }} {{ 'aXbX' | replace('X', '-') }} {{ ' t ' | trim }}|",
    "{{ 'one\ntwo\n\nthree' | indent(2) }}|{{ 'a\nb' | indent(2, true) }}",
    "{{ '12' | int + 1 }} {{ 'x' | int }} {{ 3.9 | int }} {{ [3, 1] | first }}{{ [3, 1] | last }} {{ 'abc' | list }} {{ [1, 2] | reverse | list }}",
    "{{ (1, 2)[0] }} {{ (5) }} {{ 'a' 'b' }} {{ 'q' if false }}| {{ 'p' if false else 'q' if true else 'r' }}",
    "{{ {'a': {'b': 3}}.a.b }} {{ {'get': 1}['get'] }} {{ {'a': 1}.get('b', 2) }} {{ {'a': 1}.get('b') }}",
    "{{ loop is defined }} {{ [[1, 2], [3, 4]] | map('first') | list }} {{ '%' }} {{ '}}' }} {{ {'a': {'b': 1}}}}",
    "{{ not 1 == 2 }} {{ 1 + 1 is number }} {{ -2 | string + 'x' }} {{ 'ab' + 'cd' | upper }}",
    "{{ tools is none }} {{ tools is defined }} {{ documents is none }} {{ 'x' if tools else 'y' }}",
    "{{ 'ab' is in 'xabc' }} {{ '' is in 'abc' }} {{ 1 is in [1, 2] }} {{ 'x' is not in {'x': 1} }} {% set l = [1] %}{{ 1 is in l }} {{ 2 is in l or false }}",
    "{{ {'a': 1, 'b': 2, 'a': 3} }}",
    "a\r\nb\rc\r\n", "{% if true %}\r\nx\r\n{% endif %}\r\ny", "{{ 'a\r\nb' }}|{{ 'a\\r\\nb' | tojson }}",
    "{{ '\u00a0\u3000x\u2003' | trim }}|{{ '\u00a0x\x1c'.strip() }}|{{ 'x\u00fcy\u00fc'.strip('\u00fc') }}|{{ '\u00bcx'.strip('\u00fc') }}|{{ 'xy' | trim('y') }}",
    "{{ 'a\u00a0b\u3000 c'.split() }} {{ ' a b  c '.split(none, 1) }} {{ ''.split() }} {{ ' '.split(' ') }}",
    "x\u00a0 {{- 'a' -}} \u3000 y", "\u3000{% if true %}a{% endif %}", " \x0b{% if true %}a{% endif %}\n \u00a0 {#- c #}\n",
    "{{ 'b\x08\x0c\x01\x7f\"/\\\\\u2028' | tojson }} {{ ['\u00fc\u20ac', '\U0001f642'] | tojson(true) }}",
    "{{ {'b': 1, 'a': [2]} | tojson(sort_keys=true, separators=(',', ':')) }} {{ [1, []] | tojson(indent=0) }} {{ [1] | tojson(none, 2) }} {{ [1, 2] | tojson(indent=none) }}",
    "{{ '3.7' | int }} {{ '1e3' | int }} {{ ' 12 ' | int }} {{ '+5' | int }} {{ 'inf' | int }} {{ '-' | int(7) }} {{ '+-5' | int }}",
    "{{ 9007199254740993 == 9007199254740992 }} {{ 9007199254740993 > 9007199254740992 }} {{ true == 1 }} {{ -true }} {{ 1 == 1.0 }} {{ {'a': 1} == {'a': true} }}",
    "{{ 'hello'[-9223372036854775807:] }} {{ 'hello'[9223372036854775807:] }} {{ 'hello'[::-9223372036854775807] }} {{ (0 - 9223372036854775807 - 1) is divisibleby(-1) }}",
    "{{ 'x\x7f' | list }} {{ ['it\\'s', 'q\"'] }} {{ {\"it's\": 1} }}",
    "{{ 'h\u00e9' | last }} {{ {'k': 1} | first }} {{ '' | first }} {{ 'h\u00e9llo'[1] }} {{ 'h\u00e9llo'.find('l') }} {{ 'h\u00e9' | length }}",
    "{{ 'abc'.replace('b', '') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'abc' | replace('a', 'x', count=1) }}",
    "{{ strftime_now('%Y-%m-%d %H:%M:%S %A %B %j') }}",
]


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise ValueError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = NOW.strftime
    return made


def main():
    jinja = environment()
    cases = []
    big = [CHATML, LLAMA2, LLAMA3, QWEN3, SMOLLM3]
    for text in big + SNIPPETS:
        for extra in ({}, {"tools": TOOLS, "enable_thinking": False}):
            for chat in (CHAT, CHAT[1:2]) if text in big else (CHAT,):
                if "tojson" in text and text in SNIPPETS and not extra:
                    continue
                given = {"messages": chat, "tools": None, "documents": None, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", **extra}
                cases.append({"template": text, "given": {"messages": chat, **extra}, "expected": jinja.from_string(text).render(**given)})
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump(cases, out, ensure_ascii=False, indent=0)
        out.write("\n")


if __name__ == "__main__":
    main()
