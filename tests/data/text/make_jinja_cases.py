#!/usr/bin/env python3
"""Writes jinja_cases.json: chat templates, inputs and what Jinja2 makes of them (the oracle of chat_template_test.cpp).

The environment is set up as Hugging Face's apply_chat_template does it. The long templates are written after the
publicly described formats of the model families that they are named for. Run: python3 make_jinja_cases.py
(needs python3-jinja2). An "expected" of null means that Jinja2 raised an error.
"""
import datetime
import json
import pathlib

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1721997296  # 2024-07-26 12:34:56 UTC


class Generation(Extension):
    """{% generation %}: the body alone."""

    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def strftime_now(format):
    return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(format)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


CHATS = {
    "one": [{"role": "user", "content": "Hello"}],
    "system": [
        {"role": "system", "content": "You are terse. "},
        {"role": "user", "content": "  What is 2 + 2?\n"},
        {"role": "assistant", "content": "4"},
        {"role": "user", "content": "And \"3\" + 'x' <b>é 漢字 🙂</b>?"},
    ],
    "wrong_order": [{"role": "assistant", "content": "Hi"}, {"role": "user", "content": "Hello"}],
    "empty": [],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]}],
    "tool_call": [
        {"role": "user", "content": "Weather in Paris?"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "call_1", "type": "function",
             "function": {"name": "get_weather", "arguments": {"city": "Paris", "days": 2, "exact": True, "x": None}}}]},
        {"role": "tool", "name": "get_weather", "content": "{\"t\": 21.5}"},
        {"role": "assistant", "content": "21.5 °C"},
    ],
}
TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "Weather of a \"city\" & <more>",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1,
                   "maximum": 1e3}}, "required": ["city"], "empty_list": [], "empty": {}}}}]

TEMPLATES = {
    "paceline": "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] | trim + "
                "'<|end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}",
    "llama2-like": """{% if messages and messages[0]['role'] == 'system' %}
{% set loop_messages = messages[1:] %}
{% set system_message = messages[0]['content'] %}
{% else %}
{% set loop_messages = messages %}
{% set system_message = false %}
{% endif %}
{% for message in loop_messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{% endif %}
{% if loop.index0 == 0 and system_message != false %}
{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}
{% else %}
{% set content = message['content'] %}
{% endif %}
{% if message['role'] == 'user' %}
{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
{% elif message['role'] == 'assistant' %}
{{ ' ' + content.strip() + ' ' + eos_token }}
{% endif %}
{% endfor %}""",
    "llama3-like": "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
                   "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + "
                   "'<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}"
                   "{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant"
                   "<|end_header_id|>\n\n' }}{% endif %}",
    "llama3-tools-like": """{{- bos_token }}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system message comes first. #}
{%- if messages and messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("Cannot put tools in the first user message when there's no first user message!") }}
    {%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\n' -}}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {%- for arg_name, arg_val in tool_call.arguments | items %}
            {{- arg_name + '="' ~ arg_val ~ '"' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- endif %}
        {%- endfor %}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "chatml": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
              "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "qwen-like": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are a helpful assistant.' }}
    {%- endif %}
    {{- "\\n\\n# Tools\\n\\nSignatures within <tools></tools> XML tags:\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages and messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + (message.content if message.content is string else message.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join('|')) + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{{- ns.last_query_index }}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
""",
    "mistral-like": "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
                    "{{ raise_exception('roles must alternate') }}{% endif %}{% if message['role'] == 'user' %}"
                    "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
                    "{{ message['content'] + eos_token + ' ' }}{% else %}{{ raise_exception('Only user and assistant "
                    "roles are supported!') }}{% endif %}{% endfor %}",
    "zephyr-like": """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}""",
    "gemma-like": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
                  "{% endif %}{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}"
                  "{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + "
                  "message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}"
                  "{{'<start_of_turn>model\n'}}{% endif %}",
    "macro-like": """{%- macro render_content(content, sep='+', bold=false) -%}
    {%- if content is string -%}
        {{- content -}}
    {%- elif content is sequence and content is not mapping -%}
        {%- for item in content -%}
            {%- if item.type == 'image' -%}<image>{%- elif 'text' in item -%}{{ item.text }}{%- endif -%}
            {%- if not loop.last %}{{ sep }}{% endif -%}
        {%- endfor -%}
    {%- endif -%}
    {%- if bold %}*{% endif -%}
{%- endmacro -%}
{%- for m in messages if m.role != 'system' %}
{{ loop.index }}/{{ loop.length }} {{ m.role | upper }}: {{ render_content(m.content, bold=loop.first) }}
{%- generation %} [{{ render_content(m['content'], '&') | length }}]{% endgeneration %}
{% else %}
nothing
{%- endfor %}""",
}

MICRO = [
    # white space
    "a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a\n  {%- if true -%}\n  b\n  {%- endif -%}\n  c\n\n", "{% if true %}x{% endif %}\n\ny",
    "  {# note #}\n  z", "x {#- note -#} y", "x\n  {%+ if true %}y{% endif +%}\nz", "{{ 1 }}\n{{ 2 -}}\n\n {{- 3 }}", "a\r\nb\r\n",
    "  {{ 1 }}\n  {% set x = 2 %}  {{ x }}", "{% raw %}{{ no }} {% no %}{% endraw %}!", "\t{%- raw -%}  {{ no }} {%- endraw -%} !", "{{ '}}' }}{{ {'a': {'b': 1}}['a']['b'] }}",
    "x  {% if true -%}  \n y {%- endif %}\n{% if true %}\n\nz\n{% endif %}", "{% for i in [1,2] %}\n   {% if i == 1 %}\n one\n {% else %}\n two\n {% endif %}\n{% endfor %}end",
    "a{# c #}\nb", " {%- set x = 1 %} {{ x }}", "{%if true%}{{'a'}}{%endif%}",
    # literals and printing
    "{{ 1 }} {{ 1.0 }} {{ 1e3 }} {{ 1e22 }} {{ 0.1 + 0.2 }} {{ 1e-5 }} {{ 123456789.125 }} {{ 1_000 }}", "{{ true }} {{ True }} {{ false }} {{ none }} {{ None }}", "{{ [1, 'a', none, true, 1.5, [2], (3,), {}] }}",
    "{{ {'a': 1, 'b': [\"it's\", 'say \"x\"', 'both \\' \"', 'é\\n\\t\\\\']} }}", "{{ (1, 2) }} {{ () }} {{ (1,) }} {{ 1, 2 }}", "{{ 0.0001 }} {{ 0.00001 }} {{ 1e15 }} {{ 1e16 }} {{ 0.5 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }} {{ 100.0 }} {{ 0.0 }} {{ -0.0 }}", "{{ undefined_thing }}|{{ 'a' 'b' }}", "{{ 'a\\tb\\u00e9\\x41\\q' }}", "{{ ['\\u200b', '\\x7f', '\\u00ad', '🙂'] }}",
    # operators
    "{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -2 ** 2 }}", "{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 6 / 3 }}", "{{ 'a' ~ 1 ~ none ~ true ~ [1] }}",
    "{{ 'ab' * 3 }} {{ 2 * [1, 2] }} {{ [1] + [2] }} {{ (1,) + (2,) }}", "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' == 1 }} {{ [1] == [1] }} {{ [1] == (1,) }} {{ {'a': 1} == {'a': 1} }}",
    "{{ 1 in [1, 2] }} {{ 3 not in [1, 2] }} {{ 'a' in 'cat' }} {{ 'x' in {'x': 1} }} {{ 'y' not in {'x': 1} }} {{ 1 in undefined_thing }}", "{{ 1 and 2 }} {{ 0 or 'x' }} {{ not 0 }} {{ not 1 == 2 }} {{ '' and 1 }}|{{ [] or {} }}",
    "{{ 'a' if true else 'b' }} {{ 'a' if false else 'b' if false else 'c' }} [{{ 'a' if false }}]", "{{ 'x' ~ ' a ' | trim ~ 'y' }} {{ -3 | abs }} {{ (-3) | abs }} {{ 1 + 2 | string }}", "{{ 1 + '2' }}", "{{ undefined_thing + 1 }}", "{{ 1 / 0 }}", "{{ 1 < 'a' }}",
    "{{ - - 3 }} {{ not not true }} {{ +3 }}", "{{ true + 1 }} {{ true * 'ab' }}",
    # access
    "{{ messages[0].role }} {{ messages[0]['role'] }} {{ messages[-1].content }} {{ messages[99] }} {{ messages[0].nope }}", "{{ messages[0].nope.deeper }}", "{{ nope.deeper }}", "{{ nope[0] }}", "{{ 'abc'[1] }} {{ 'aé漢🙂'[-1] }} {{ [1,2,3][1] }} {{ [[1,2],[3]][0][1] }} {{ [1,2].1 }}",
    "{{ [1,2,3,4,5][1:3] }} {{ [1,2,3,4,5][::-1] }} {{ [1,2,3,4,5][-2:] }} {{ [1,2,3,4,5][:-2] }} {{ [1,2,3,4,5][4:0:-2] }} {{ [1,2][5:] }} {{ (1,2,3)[1:] }}", "{{ 'aé漢🙂b'[1:4] }} {{ 'abc'[::-1] }} {{ 'abc'[-100:100] }}",
    "{{ none.x is defined }} {{ 'abc'.x is defined }} {{ (5).x is defined }}",
    # statements
    "{% set x = 1 %}{% for i in [1,2,3] %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}", "{% set ns = namespace(x=0) %}{% for i in [1,2,3] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y is defined }}", "{% if true %}{% set x = 5 %}{% endif %}{{ x }}",
    "{% set x %}a{{ 1 }}b{% endset %}[{{ x }}]{{ x | length }}", "{% set a, b = 1, [2, 3] %}{{ a }}{{ b }}", "{% set (a, b) = (1, 2) %}{{ a }}{{ b }}", "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in {'a': 1, 'b': 2} %}{{ k }}{% endfor %}", "{% for c in 'aé🙂' %}[{{ c }}]{% endfor %}",
    "{% for i in [] %}x{% else %}none{% endfor %}", "{% for i in nope %}x{% else %}none{% endfor %}", "{% for i in [1,2,3,4] if i % 2 == 0 %}{{ loop.index }}:{{ i }}/{{ loop.length }} {% endfor %}", "{% for i in 'abc' %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}",
    "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in range(3) %}{% set o = loop %}{% for j in range(2) %}{{ o.index }}{{ loop.index }} {% endfor %}{% endfor %}", "{% for a, b in [[1, 2], (3, 4)] %}{{ a }}-{{ b }} {% endfor %}", "{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}",
    "{{ range(5) | list }} {{ range(2, 5) | list }} {{ range(5, 0, -2) | list }}", "{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, c='z') }} {{ m(a=9, b=8) }} {{ m() }}", "{% macro m(a) %}{% if a > 0 %}{{ a }}{{ m(a - 1) }}{% endif %}{% endmacro %}{{ m(5) }}", "{% set g = 1 %}{% macro m() %}{{ g }}{% set g = 2 %}{{ g }}{% endmacro %}{{ m() }}{{ g }}",
    "{% macro m(x) %}[{{ x }}]{% endmacro %}{% for i in [1, 2] %}{{ m(i) }}{% endfor %}{{ m('a') | upper }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% if 0 %}a{% elif '' %}b{% elif [0] %}c{% else %}d{% endif %}", "{% set x = 1 %}{% set y = x if x is defined else 0 %}{{ y }}", "{% for m in messages %}{{ m.role }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{% set ns.a = ns %}{{ ns.a.b }}", "{% for i in range(3) %}{% if loop.previtem is defined and loop.previtem == 1 %}prev{% endif %}{{ i }}{% endfor %}",
    # tests
    "{{ x is defined }} {{ messages is defined }} {{ x is undefined }} {{ none is none }} {{ 1 is none }}", "{{ 'a' is string }} {{ 1 is string }} {{ {} is mapping }} {{ [] is iterable }} {{ 'a' is iterable }} {{ 1 is iterable }} {{ {} is sequence }} {{ 1 is number }} {{ 1.5 is number }} {{ true is number }} {{ true is boolean }} {{ 1 is boolean }}",
    "{{ true is true }} {{ 1 is true }} {{ false is false }} {{ 1 is equalto 1 }} {{ 1 is eq(2) }} {{ 'a' is in ['a'] }} {{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 1 is integer }} {{ 1.0 is float }}", "{{ x is not defined }} {{ 1 is not none and 2 is number }} {{ (x is defined and x) or 'd' }}", "{{ 'ABC' is upper }} {{ 'abc' is lower }} {{ 1 is lt 2 }} {{ 3 is gt(2) }} {{ 2 is ne 2 }}", "{{ x is iterable }} {{ x is sequence }} {{ x is mapping }} {{ x is callable }}",
    # methods
    "{{ '  a b '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xya'.lstrip('yx') }}|{{ 'a\\n'.rstrip() }}|{{ '\\u00a0\\u3000a\\x1c'.strip() }}", "{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ ' a  b c '.split(none, 1) }} {{ ''.split() }} {{ ''.split(',') }}", "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('bc') }} {{ 'abc'.startswith(('x', 'a')) }}",
    "{{ 'straße éa'.upper() }} {{ 'ÉA'.lower() }} {{ \"they're bill's 3rd éa-x\".title() }} {{ 'aXbX'.replace('X', '--') }} {{ 'aXbX'.replace('X', '-', 1) }} {{ 'ab'.replace('', '.') }}", "{{ ', '.join(['a', 'b']) }} {{ {'a': 1}.get('a') }} {{ {'a': 1}.get('b') }} {{ {'a': 1}.get('b', 'd') }} {{ {'a': 1}.keys() | list }} {{ {'a': 1}.values() | list }} {{ {'a': 1}.items() | list }}",
    "{{ messages[0].get('role', 'x') }} {{ messages[0].content.split('l')[-1] }}", "{{ ','.join([1]) }}", "{{ 'think</think>answer'.split('</think>')[-1].lstrip('\\n') }}",
    # filters
    "[{{ '  a ' | trim }}] [{{ 5 | trim }}] [{{ 'xax' | trim('x') }}]", "{{ [1, 'a', none] | join }} {{ ['a', 'b'] | join(', ') }} {{ messages | join('-', attribute='role') }} {{ 'abc' | join('.') }}", "{{ 'abc' | length }} {{ [1] | count }} {{ {'a': 1} | length }} {{ 'é🙂' | length }} {{ nope | length }}", "{{ 'aé' | upper }} {{ 'AÉ' | lower }} {{ 'hELLO wORLD' | capitalize }} {{ \"hello-big (world) it's\" | title }}",
    "{{ [1,2] | first }} {{ [1,2] | last }} {{ [] | first }} {{ 'abc' | first }} {{ 'abc' | last }}", "{{ nope | default('d') }} {{ '' | default('d') }} {{ '' | default('d', true) }} {{ none | d('x') }} {{ nope | d }}|", "{{ messages | map(attribute='role') | list }} {{ ['a', 'b'] | map('upper') | join }} {{ [{'f': {'n': 1}}] | map(attribute='f.n') | list }} {{ [{}] | map(attribute='x', default='y') | list }} {{ ['a-b'] | map('replace', '-', '+') | list }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('role', 'eq', 'user') | list | length }} {{ messages | selectattr('role') | list | length }} {{ [{'a': 1}, {}] | selectattr('a', 'defined') | list }} {{ [1,2,3,4] | select('odd') | list }} {{ [0,1,''] | reject | list }} {{ [1,2,3] | select('>', 1) | list }}",
    "{{ '12' | int }} {{ ' 3.9 ' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 3.9 | int }} {{ -3.9 | int }} {{ true | int }} {{ none | int }} {{ '1.5' | float }} {{ 'x' | float }} {{ 2 | float }}", "{{ 1 | string ~ 'a' }} {{ none | string }} {{ [1] | string }}", "{{ 'aab' | replace('a', 'x') }} {{ 'aab' | replace('a', 'x', 1) }}", "{{ [1, 1, 'a', 'A', 'b'] | unique | list }}", "{{ 'abc' | list }} {{ {'b': 1, 'a': 2} | list }} {{ (1, 2) | list }}",
    "{{ {'b': 1, 'a': [1, 2.5, none, true, 'x\"\\n\\u00e9\\x1f']} | tojson }}", "{{ {'b': {}, 'a': [1, [], {'c': 2}]} | tojson(indent=2) }}", "{{ {'b': 1, 'a': '<&>🙂'} | tojson(sort_keys=true, ensure_ascii=true) }} {{ [1, 2] | tojson(separators=(',', ':')) }} {{ 'é' | tojson }} {{ 1e22 | tojson }}", "{{ tools | tojson }}", "{{ tools | tojson(indent=4) }}",
    "{{ {'a': 1, 'b': 2} | items | list }} {{ {'b': 1, 'A': 2} | dictsort }} {{ [1, 2] | reverse | list }} {{ 'abc' | reverse }} {{ 'a\\nb\\n\\nc' | indent }} {{ 'a\\nb' | indent(2, true) }}", "{{ '<b>' | safe }} {{ 3 | abs }} {{ -2.5 | abs }}", "{{ nope | tojson }}", "{{ 'a' | no_such_filter }}", "{{ 'a' is no_such_test }}",
    # of nothing, and generators
    "{{ none | selectattr('type', 'equalto', 'x') | list | length }}{{ 0 | map(attribute='a') | list }}{{ false | select | list }}{{ nope | rejectattr('a') | list }}{{ none | map | list }}",
    "{% if messages | selectattr('role', 'equalto', 'nobody') %}always{% else %}never{% endif %}", "{% set m = messages | map(attribute='role') %}{% for r in m %}{{ r }},{% endfor %}|{% for r in m %}{{ r }}{% endfor %}|{{ m | list }}", "{{ messages | map(attribute='role') | length }}", "{{ messages | map(attribute='role') | tojson }}", "{{ (messages | map(attribute='role'))[0] }}|{{ (messages | map(attribute='role')).x }}|", "{% set m = [1, 2, 3] | select %}{{ m | first }}{{ m | list }}{{ m | first }}|", "{{ [1, 2] | select | last }}", "{{ 2 in ([1, 2] | select) }}{{ [1, 2] | select is iterable }}{{ [1, 2] | select is sequence }}{{ [2, 1] | reverse is sequence }}{{ ([1, 2] | select | reverse)[0] }}", "{% for i in [3, 4] | reverse %}{{ i }}{{ loop.length }}{{ loop.last }} {% endfor %}", "{{ [{'a': {}}, {}] | map(attribute='a.b', default={'b': 3}) | list }}",
    # scopes of macros
    "{% macro o(z) %}{% macro a() %}{{ z }}{% endmacro %}{{ a() }}{% endmacro %}{{ o(1) }}", "{% for z in [1, 2] %}{% macro a() %}[{{ z }}]{% endmacro %}{{ a() }}{% endfor %}", "{% for z in [3] %}{% macro a(n) %}{{ n * z }}{% if n > 1 %}{{ a(n - 1) }}{% endif %}{% endmacro %}{{ a(3) }}{% endfor %}", "{% set q = 5 %}{% macro m(p, q=q) %}{{ p }}{{ q }}{% endmacro %}{{ m(1) }}|{{ m(1, 2) }}", "{% macro m(p, q=p) %}{{ p }}{{ q }}{% endmacro %}{{ m(1) }}", "{% for z in [1] %}{% set w = 2 %}{% macro a() %}{% set w = w + 1 %}{{ w }}{% endmacro %}{{ a() }}{{ a() }}{{ w }}{% endfor %}",
    "{% for i in [1, 2] %}{% set x = 1 %}{% macro f() %}{{ x }}{{ g() if g is defined }}{% endmacro %}{% set x = 2 %}{% macro g() %}g{{ i }}{% endmacro %}{{ f() }}{% endfor %}", "{% with %}{% macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(2) }}{% endwith %}", "{% macro m(x, caller=none) %}{{ x }}{% if caller %}{{ caller() }}{% endif %}{% endmacro %}{{ m(1) }}|{% call m(2) %}body{% endcall %}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(a=1, **{'a': 2}) }}", "{{ dict(a=1, **{'a': 2}) }}",
    "{% with %}{% macro f(n) %}A{% if n %}{{ f(0) }}{% endif %}{% endmacro %}{% set g = f %}{% macro f(n) %}B{% endmacro %}{{ g(1) }}{% endwith %}",
    # call blocks, filter blocks, with
    "{% macro m(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call m('b') %}x{{ messages | length }}{% endcall %}", "{% macro m(xs) %}{% for x in xs %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% for p in ['-', '+'] %}{% call(v, i=0) m([7, 8]) %}{{ p }}{{ v }}{{ i }}{% endcall %}{% endfor %}", "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}", "{% call range(3) %}x{% endcall %}", "{% call 5 %}x{% endcall %}",
    "{% filter upper | trim %}  a{{ 1 }}b {% endfilter %}|{% set x | trim | replace('a', 'b') %} aa {% endset %}[{{ x }}]", "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% set a = 9 %}{% endwith %}{{ a }}{% with %}{% set c = 1 %}{% endwith %}{{ c is defined }}",
    # unpacked arguments, dicts by other keys
    "{% macro m(a, b, c=3) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(*[1, 2]) }} {{ m(1, *[2], c=4) }} {{ m(**{'a': 5, 'b': 6}) }} {{ m(*'xy', **{'c': 'z'}) }} {{ range(*[1, 4]) | list }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(*[1, 2]) }}", "{{ dict(a=1, b='x') }} {{ dict({'a': 1}, a=2) }} {{ dict() }} {{ dict({0: 1}, b=2) }}", "{% set d = {0: 'zero', 512: 'much', 'k': 1, none: 'n', 1.5: 'f'} %}{{ d }} {{ d[0] }} {{ d[512] }} {{ d[1] is defined }} {{ d.get(512) }} {{ d.get(7, 'd') }} {{ 512 in d }} {{ '512' in d }} {{ d[none] }} {{ d[1.5] }} {{ d | length }}", "{% for k, v in {0: 1, 512: 2}.items() %}{% if k > 100 %}{{ k }}{{ v }}{% endif %}{% endfor %} {{ {1: 2, 'a': 3}.keys() | list }} {{ {1: 'a', true: 'b', 1.0: 'c'} }} {{ {0: 1, 10: 2} | tojson }} {{ {true: 1, none: 2, 1.5: 3} | tojson(indent=1) }} {{ {2: 'a', 1: 'b'} | dictsort }} {{ {0: 1} == {0: 1} }} {{ {0: 1} == {'0': 1} }} {{ {0: 1} | items | list }}", "{{ {10 ** 16: 1}[1e16] }} {{ {1e16: 1}[10000000000000000] }}", "{% set g = [1, 2, 3] | select %}{{ 2 in g }}{{ g | list }}{{ g == g }}", "{{ 'a b c'.rsplit(' ', -9223372036854775807 - 1) }}{{ 'a b c'.split(' ', -9223372036854775807 - 1) }}{{ 'aa'.replace('a', 'b', -9223372036854775807 - 1) }}", "{% filter upper is string %}a{% endfilter %}", "{% call 'x'.upper() %}b{% endcall %}", "{{ {[1]: 2} }}", "{{ {'a': 1}.copy() }}", "{{ [1] in {} }}", "{{ nope in {1: 1} }}{{ (1, 2) in {1: 1} }}",
    # the rest of what templates in use call
    "{{ '..{}'.format(3) }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{x:>4}|{{}}'.format(x='é') }} {{ '{:.2f} {:05d} {:+} {:<3}|{:^5}|{:*>4}'.format(2.345, 42, 7, 1, 'm', 'z') }} {{ '{} {}'.format(none, [1]) }} {{ '{:x}{:.1%}'.format(255, 0.5) if false }}", "{{ '{:5}|{:+}|{:.1f}|{:e}|{:g}|{:08.3f}|{:,}|{:,.2f}|{: d}|{:<5}|{:=+5}|{:#x}|{:X}|{:b}|{:o}|{:.0%}'.format(3.0, 2.0, 2.25, 12345.678, 1e-7, -3.14159, 1234567, 9876.543, 5, true, 3, 255, 255, 5, 8, 0.5) }}", "{{ '{:5}|{:>4}|{:^7}|{:.2}|{:*^5.1s}|{:05}'.format('日本', 'é', 'ab', '日本語', 'xyz', 'a') }}", "{{ '{:<05d}|{:>05}|{:^06}|{:<05}|{:#010x}|{:#o}|{:#=8X}|{:=08}|{:x<5}'.format(42, 42, 42, 'ab', 42, 8, 255, -42, 7) }}", "{% set t = 10 %}{% set i = 1e308 * t %}{{ '{:5}|{:+}'.format(i - i, i) }}", "{{ '{:{<5}'.format(1) }}", "{{ '{:-s}'.format('ab') }}", "{{ '{:0=5}'.format('ab') }}", "{{ '{:?}'.format('a') }}", "{{ '{:d}'.format(1.5) }}", "{{ '{:s}'.format(1) }}", "{{ '{:.2d}'.format(1) }}", "{{ '{}{0}'.format(1) }}", "{{ '{:+}'.format('a') }}", "{{ '{:5}'.format(none) }}", "{{ '{:5}'.format([1]) }}", "{{ '{}'.format() }}", "{{ '{'.format(1) }}", "{{ '}'.format(1) }}", "{{ 'hELLO wORLD'.capitalize() }} {{ 'abcabc'.find('c') }} {{ 'é🙂c'.find('c') }} {{ 'a'.find('x') }} {{ 'abcabc'.count('bc') }} {{ 'ab'.count('') }} {{ 'prefix'.removeprefix('pre') }} {{ 'a.txt'.removesuffix('.txt') }} {{ 'ab'.removeprefix('b') }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a,b,c'.rsplit(',') }} {{ '12'.isdigit() }} {{ ''.isdigit() }} {{ 'a\r\nb\n\nc\n'.splitlines() }} {{ ''.splitlines() }} {{ [1, 2, 1].count(1) }} {{ ['a', 'b'].index('b') }}", "{{ [1].index(2) }}",
    "{{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A', 'c'] | sort(case_sensitive=true) }} {{ [3, 1, 2] | sort(reverse=true) | join }} {{ messages | sort(attribute='role') | map(attribute='role') | join(',') }} {{ messages | sort(attribute='role,content', reverse=true) | map(attribute='content') | first }} {{ [[2, 'a'], [1, 'b'], [1, 'a']] | sort }}", "{{ [1, 'a'] | sort }}", "{{ [3, 1, 2] | min }} {{ [3, 1, 2] | max }} {{ [] | max }}| {{ ['b', 'A'] | min }} {{ ['b', 'A'] | max(case_sensitive=true) }} {{ [{'n': 2}, {'n': 1}] | min(attribute='n') }} {{ [1, 2.5] | sum }} {{ [{'n': 2}, {'n': 1}] | sum(attribute='n', start=10) }} {{ [] | sum }}", "{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 2.1 | round(0, 'ceil') }} {{ 2.19 | round(1, 'floor') }} {{ 7 | round }} {{ 7 | round(1, 'ceil') }} {{ -0.5 | round }}",
    "{{ {'b': 2, 'A': 1, 'c': 0} | dictsort }} {{ {'b': 2, 'A': 1, 'c': 0} | dictsort(true) }} {{ {'b': 2, 'a': 1} | dictsort(false, 'value') }} {{ {'b': 2, 'a': 1} | dictsort(reverse=true) }}", "{{ true is sameas true }}{{ 1 is sameas true }}{{ none is sameas none }}{{ false is sameas(false) }}", "{% for i in range(5) %}{{ loop.cycle('a', 'b', 'c') }}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}", "{{ [1] | tojson(true) }} {{ {'é': 1} | tojson(true) }} {{ [1] | tojson(false, 2) }} {{ [1, 2] | tojson(false, none, [',', ':'], true) }}", "{{ 1 % 0.1 }} {{ 1.0 // 0.1 }} {{ 6.0 // 0.1 }} {{ -1 % 0.3 }} {{ 1 % -0.3 }} {{ -7.5 // 2 }} {{ 5.0 % 3 }} {{ -5.0 % 3 }} {{ 0.0 // 3 }} {{ 1e300 // 0.7 }}",
    "{{ [nope] }} {{ 'a\r\nb\u2028c\n\nd' | indent(1) }}|{{ 'a\n' | indent }}|{{ '' | indent(2, true) }}|{{ messages[1].content | indent(3) }}|{{ 'a\n\nb\n' | indent(1, false, true) }}|", "{{ [1, 2] < [1, 3] }} {{ [1] < [1, 0] }} {{ (2,) >= (1, 5) }}", "{{ [1] < (1,) }}",
    # refused by the sandbox, or broken
    "{{ messages.append(1) }}", "{{ messages[0].update({'a': 1}) }}", "{% for %}", "{{ 1 + }}", "{% if true %}", "{{ 'abc }}", "{% endfor %}", "{{ (1 }}", "{% unknown %}", "{{ raise_exception('no\nway') }}", "{{ nope() }}", "{{ 'a'() }}", "{{ 5() }}",
    "{{ strftime_now('%Y-%m-%d %H:%M') }}", "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}", "{{ add_generation_prompt }} {{ tools is none }} {{ extra }} {{ flag }}",
]


def main():
    env = environment()
    cases, sources = [], []
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}

    def add(name, template, chat, variables):
        try:
            parsed = env.from_string(template)
            expected = parsed.render(messages=CHATS[chat], documents=None, **tokens, **variables)
        except (jinja2.exceptions.TemplateError, LookupError, TypeError, ValueError, ZeroDivisionError):
            expected = None
        if template not in sources:
            sources.append(template)
        cases.append({"name": name, "template": sources.index(template), "chat": chat, "tools": variables["tools"] is not None,
                      "add_generation_prompt": variables["add_generation_prompt"], "expected": expected})

    extra = {"extra": "more", "flag": False}
    for name, template in TEMPLATES.items():
        for chat in CHATS:
            for prompt, tools in ((True, None), (False, None), (True, TOOLS)):
                add(name, template, chat, {"add_generation_prompt": prompt, "tools": tools, **extra})
    for number, template in enumerate(MICRO):
        add(f"micro {number}", template, "system", {"add_generation_prompt": True, "tools": TOOLS, **extra})
    out = {"tokens": tokens, "variables": extra, "now": NOW, "chats": CHATS, "tools": TOOLS,
           "templates": sources, "cases": cases}
    path = pathlib.Path(__file__).parent / "jinja_cases.json"
    path.write_text(json.dumps(out, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    print(f"{len(cases)} cases, {sum(case['expected'] is None for case in cases)} errors")


if __name__ == "__main__":
    main()
