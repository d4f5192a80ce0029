// The page's own words, in English and Chinese, and the reader's choice of language and theme.

const TEXTS = {
  en: {
    motto: "Translation with a model that can be seen through",
    desk: "Translate",
    other_language: "中文",
    switch_language: "Switch to Chinese",
    switch_theme: "Switch between light and dark",
    source_language: "Language of your text",
    target_language: "Language of the translation",
    source_text: "Your text",
    type_here: "Type here; the translation grows beside it",
    translation: "Translation",
    detect: "Detect language",
    detected: "{language}",
    swap: "Swap the languages",
    clear: "Clear",
    copy: "Copy",
    copied: "Copied",
    undo: "Undo your words",
    inspect: "Look inside",
    click_words: "Click a word to change it",
    other_words: "Other words for this place",
    no_other_words: "The model sees no other word here",
    alternatives: "Alternatives",
    model: "Model",
    beams: "Beams",
    show_alternatives: "Alternatives",
    key: "API key",
    foot: "Runs on this server alone. The same address speaks LibreTranslate's API:",
    docs: "how to use it",
    no_pair: "No model translates between these languages",
    offline: "The server does not answer",
    docs_motto: "The API of this server",
    docs_intro: "Send fields as JSON, as a form, or in the query string; errors come as {\"error\": …}. LibreTranslate's clients work unchanged.",
    field: "Field",
    type: "Type",
    meaning: "Meaning",
    required: "required",
    answers: "Answers",
    try_it: "Try it in a terminal",
    home: "Translate",
    raw: "OpenAPI description",
    family_motto: "Models that can be seen through",
    generate: "goes on with a text",
    classify: "labels a text",
    tag: "labels every word",
    fill: "fills blanks",
    answer: "Answer",
    go_on: "Go on",
    stop: "Stop",
    begin_here: "Begin a text; the model goes on",
    label_here: "Type here; labels come beside it",
    blanks_here: "Type here, with ___ where something is to be guessed",
    generate_hint: "Ctrl + Enter goes on too",
    classify_hint: "The likeliest labels",
    tag_hint: "Point at a word to see how sure the model is",
    fill_hint: "What may stand in each blank",
    length: "Tokens",
    sample: "Draw at random",
    temperature: "Temperature",
    family_foot: "Runs on this server alone. It has an API:",
    more: "models that do not translate",
  },
  zh: {
    motto: "看得见内部的翻译模型",
    desk: "翻译",
    other_language: "English",
    switch_language: "切换为英文",
    switch_theme: "切换明暗主题",
    source_language: "原文语言",
    target_language: "译文语言",
    source_text: "原文",
    type_here: "在此输入，译文随之出现",
    translation: "译文",
    detect: "自动识别语言",
    detected: "{language}",
    swap: "交换语言",
    clear: "清空",
    copy: "复制",
    copied: "已复制",
    undo: "撤销选词",
    inspect: "看看内部",
    click_words: "点一个词，换一种说法",
    other_words: "此处可用的其他词",
    no_other_words: "模型在此处没有其他词",
    alternatives: "其他译法",
    model: "模型",
    beams: "束宽",
    show_alternatives: "其他译法",
    key: "API 密钥",
    foot: "一切都在这台服务器上运行。同一地址也提供 LibreTranslate 接口：",
    docs: "使用方法",
    no_pair: "没有模型能在这两种语言之间翻译",
    offline: "服务器没有回应",
    docs_motto: "本服务器的接口",
    docs_intro: "字段可以用 JSON、表单或查询字符串发送；出错时返回 {\"error\": …}。LibreTranslate 的客户端无需改动即可使用。",
    field: "字段",
    type: "类型",
    meaning: "含义",
    required: "必填",
    answers: "返回",
    try_it: "在终端里试试",
    home: "翻译",
    raw: "OpenAPI 描述",
    family_motto: "看得见内部的模型",
    generate: "续写",
    classify: "给文本分类",
    tag: "给每个词加标签",
    fill: "填空",
    answer: "结果",
    go_on: "续写",
    stop: "停止",
    begin_here: "写一个开头，模型接着写",
    label_here: "在此输入，标签随之出现",
    blanks_here: "在此输入，要猜的地方写 ___",
    generate_hint: "按 Ctrl + Enter 也可续写",
    classify_hint: "可能性最大的标签",
    tag_hint: "把鼠标放在词上，看模型有多大把握",
    fill_hint: "每个空里可能是什么",
    length: "词元数",
    sample: "随机抽样",
    temperature: "温度",
    family_foot: "一切都在这台服务器上运行。也提供接口：",
    more: "不做翻译的模型",
  },
};

const remembered = {
  get(key) { try { return localStorage.getItem(`glassformer.${key}`); } catch { return null; } },
  set(key, value) { try { localStorage.setItem(`glassformer.${key}`, value); } catch { /* private window */ } },
};
let language = remembered.get("language") || (navigator.language.startsWith("zh") ? "zh" : "en");

export const uiLanguage = () => language;

/** A text in the reader's language; {name} is filled in. */
export function t(key, values = {}) {
  const text = TEXTS[language][key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/** What the reader calls a language. */
export function languageName(code, fallback = code) {
  try {
    return new Intl.DisplayNames([language], { type: "language" }).of(code) ?? fallback;
  } catch {
    return fallback;
  }
}

function apply() {
  document.documentElement.lang = language;
  for (const element of document.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  for (const element of document.querySelectorAll("[data-title]")) {
    element.setAttribute("aria-label", t(element.dataset.title));
    if (element.matches("button")) element.title = t(element.dataset.title);
  }
}

function showTheme(name) {
  document.documentElement.dataset.theme = name;
  document.getElementById("theme").textContent = name === "dark" ? "☀" : "☾";
}

/** Fill the page with texts, now and whenever the reader switches; `changed` redraws the rest. */
export function start(changed) {
  const prefers = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  showTheme(remembered.get("theme") || prefers);
  document.getElementById("theme").addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    remembered.set("theme", next);
    showTheme(next);
  });
  document.getElementById("language").addEventListener("click", () => {
    language = language === "en" ? "zh" : "en";
    remembered.set("language", language);
    apply();
    changed();
  });
  apply();
}
