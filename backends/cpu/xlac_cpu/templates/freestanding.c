/* What the program below takes from a C library, made of system calls: so it needs none. */
static int errno;

static long result(long value)
{
    if (value >= 0 || value < -4095) return value;
    errno = (int)-value;
    return -1;
}

void *memcpy(void *to, const void *from, size_t count)
{
    for (size_t i = 0; i < count; ++i) ((volatile unsigned char *)to)[i] = ((const unsigned char *)from)[i];
    return to;
}

void *memset(void *to, int byte, size_t count)
{
    for (size_t i = 0; i < count; ++i) ((volatile unsigned char *)to)[i] = (unsigned char)byte;
    return to;
}

int memcmp(const void *a, const void *b, size_t count)
{
    const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;
    for (size_t i = 0; i < count; ++i)
        if (x[i] != y[i]) return x[i] - y[i];
    return 0;
}

size_t strlen(const char *text)
{
    const volatile char *end = text;
    while (*end) ++end;
    return (size_t)(end - text);
}

static int strncmp(const char *a, const char *b, size_t count)
{
    for (size_t i = 0; i < count; ++i)
        if (a[i] != b[i] || a[i] == 0) return (unsigned char)a[i] - (unsigned char)b[i];
    return 0;
}

__attribute__((unused)) static int strcmp(const char *a, const char *b) { return strncmp(a, b, SIZE_MAX); }

static char *strchr(const char *text, int wanted)
{
    for (; *text; ++text)
        if (*text == (char)wanted) return (char *)text;
    return NULL;
}

static char *strstr(const char *text, const char *wanted)
{
    const size_t length = strlen(wanted);
    for (; *text; ++text)
        if (strncmp(text, wanted, length) == 0) return (char *)text;
    return NULL;
}

__attribute__((unused)) static char *strcpy(char *to, const char *from) { return (char *)memcpy(to, from, strlen(from) + 1); }

/* Digits only, of base 10, after blanks and a sign. */
__attribute__((unused)) static long long strtoll(const char *text, char **after, int base)
{
    long long value = 0;
    int negative;
    while (*text == ' ') ++text;
    negative = *text == '-';
    if (*text == '-' || *text == '+') ++text;
    for (; *text >= '0' && *text <= '9' && value < INT64_MAX / 100; ++text) value = value * base + (*text - '0');
    *after = (char *)text;
    return negative ? -value : value;
}

static size_t strspn(const char *text, const char *set)
{
    size_t i = 0;
    while (text[i] && strchr(set, text[i])) ++i;
    return i;
}

static const char *strerror(int number)
{
    switch (number) {
    case 2: return "No such file or directory";
    case 13: return "Permission denied";
    case 21: return "Is a directory";
    case 28: return "No space left on device";
    default: return "a system call failed";
    }
}

typedef struct { int file; } FILE;
enum { EOF = -1, FILES = 8 };
static FILE open_files[FILES];
static FILE standard_error = {2};
#define stderr (&standard_error)

static FILE *fopen(const char *name, const char *mode)
{
    const long file = result(OPEN_FILE(name, *mode == 'r' ? 0 : 01 | 0100 | 01000)); /* write only, made, emptied */
    if (file < 0) return NULL;
    for (int i = 0; i < FILES; ++i) {
        if (open_files[i].file == 0) {
            open_files[i].file = (int)file;
            return &open_files[i];
        }
    }
    errno = 24;
    return NULL;
}

static int fclose(FILE *file)
{
    const long status = result(call(CLOSE, file->file, 0, 0, 0, 0, 0));
    file->file = 0;
    return (int)status;
}

static size_t transfer(long number, char *data, size_t bytes, int file)
{
    size_t done = 0;
    while (done < bytes) {
        const long moved = result(call(number, file, (long)(data + done), (long)(bytes - done), 0, 0, 0));
        if (moved <= 0) break;
        done += (size_t)moved;
    }
    return done;
}

static size_t fread(void *data, size_t size, size_t count, FILE *file) { return transfer(READ, (char *)data, size * count, file->file); }
static size_t fwrite(const void *data, size_t size, size_t count, FILE *file) { return transfer(WRITE, (char *)data, size * count, file->file); }

static int fgetc(FILE *file)
{
    unsigned char byte;
    return fread(&byte, 1, 1, file) == 1 ? byte : EOF;
}

static int fputc(int byte, FILE *file)
{
    const unsigned char one = (unsigned char)byte;
    return fwrite(&one, 1, 1, file) == 1 ? byte : EOF;
}

/* A number in decimal, written from the end of `room`; gives where it begins. */
__attribute__((unused)) static const char *decimal(long long value, char *end)
{
    unsigned long long rest = value < 0 ? 0 - (unsigned long long)value : (unsigned long long)value;
    *--end = 0;
    do *--end = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) *--end = '-';
    return end;
}

/* Of formats, %lld, and %s with a width or a precision, which may be *. */
static size_t format(char *to, size_t room, const char *text, va_list given)
{
    size_t at = 0;
    for (; *text; ++text) {
        size_t width = 0, most = SIZE_MAX, length;
        const char *piece = text;
        if (*text != '%') {
            if (at + 1 < room) to[at++] = *text;
            continue;
        }
        ++text;
        for (size_t *number = &width;; number = &most) {
            if (number == &most) *number = 0;
            if (*text == '*') {
                *number = (size_t)va_arg(given, int);
                ++text;
            }
            for (; *text >= '0' && *text <= '9'; ++text) *number = *number * 10 + (size_t)(*text - '0');
            if (*text != '.') break;
            ++text;
        }
        char digits[24];
        if (*text == 'l') {
            text += 2;
            piece = decimal(va_arg(given, long long), digits + sizeof digits);
        } else {
            piece = va_arg(given, const char *);
        }
        for (length = 0; length < most && piece[length]; ++length) {}
        for (; width > length; --width)
            if (at + 1 < room) to[at++] = ' ';
        for (size_t i = 0; i < length; ++i)
            if (at + 1 < room) to[at++] = piece[i];
    }
    to[at] = 0;
    return at;
}

__attribute__((unused)) static int sprintf(char *to, const char *text, ...)
{
    va_list given;
    va_start(given, text);
    const size_t length = format(to, 512, text, given);
    va_end(given);
    return (int)length;
}

static int fprintf(FILE *file, const char *text, ...)
{
    static char line[4096];
    va_list given;
    va_start(given, text);
    const size_t length = format(line, sizeof line, text, given);
    va_end(given);
    return fwrite(line, 1, length, file) == length ? (int)length : -1;
}

enum { O_RDONLY = 0, PROT_READ = 1, PROT_WRITE = 2, MAP_PRIVATE = 2, MAP_ANONYMOUS = 32 };
#define MAP_FAILED ((void *)-1)
struct stat { int64_t st_size; };

__attribute__((unused)) static void *mmap(void *at, size_t bytes, int protection, int flags, int file, long offset)
{
    return (void *)result(call(MAP, (long)at, (long)bytes, protection, flags, file, offset));
}

__attribute__((unused)) static void *malloc(size_t bytes)
{
    void *const block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return block == MAP_FAILED ? NULL : block;
}

__attribute__((unused)) static int open(const char *name, int flags)
{
    FILE *const file = flags == O_RDONLY ? fopen(name, "r") : NULL;
    return file == NULL ? -1 : file->file;
}

__attribute__((unused)) static int close(int file)
{
    for (int i = 0; i < FILES; ++i)
        if (open_files[i].file == file) return fclose(&open_files[i]);
    return -1;
}

__attribute__((unused)) static int fstat(int file, struct stat *found)
{
    found->st_size = result(call(SEEK, file, 0, 2, 0, 0, 0));
    return found->st_size < 0 ? -1 : 0;
}

int main(int count, char **arguments);

__attribute__((noreturn)) void begin(long count, char **arguments)
{
    const int status = main((int)count, arguments);
    for (;;) call(EXIT, status, 0, 0, 0, 0, 0);
}

